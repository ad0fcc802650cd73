-- lua: no memory of its own, each table, string and closure is one call of realloc or free.
local seed = 42
local function draw(limit)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed % limit
end

local function tree(depth)
  if depth == 0 then return { leaf = draw(1000) } end
  return { left = tree(depth - 1), right = tree(depth - 1) }
end

local function sum(node)
  return node.leaf or (sum(node.left) + sum(node.right)) % 1000003
end

local total = 0
for _ = 1, 12 do total = (total + sum(tree(14))) % 1000003 end
print(total)

local words, count = {}, 0
for i = 1, 500000 do
  local key = "key" .. draw(40000)
  if words[key] then words[key] = words[key] .. "," .. i else words[key] = tostring(i); count = count + 1 end
  if i % 3 == 0 then
    local gone = "key" .. draw(40000)
    if words[gone] then words[gone] = nil; count = count - 1 end
  end
end
local keys = {}
for key in pairs(words) do keys[#keys + 1] = key end
table.sort(keys)
local length = 0
for _, key in ipairs(keys) do length = length + #words[key]:gsub("%d+", "<%0>") end
print(count, #keys, length, keys[1], keys[#keys])

local lines = {}
for i = 1, 150000 do lines[i] = string.format("%d %s %x", i, keys[draw(#keys) + 1], draw(65536)) end
print(#table.concat(lines, "\n"))
