# ruby: a collected heap of objects whose contents are malloc's blocks.
require 'json'
require 'digest'
seed = 42
draw = -> { seed = (seed * 1103515245 + 12345) % 2147483648 }
table = Hash.new { |hash, key| hash[key] = [] }
300_000.times do |i|
  table["key#{draw.call % 20_000}"] << "value number #{i} of many, long enough not to be embedded"
  table.delete("key#{draw.call % 20_000}") if i % 3 == 0
end
puts table.size, table.values.sum(&:size)
text = JSON.generate(table.sort.to_h)
puts Digest::SHA256.hexdigest(text), JSON.parse(text).size
puts text.gsub(/key(\d+)/) { "<#{$1.to_i * 2}>" }.scan(/<(\d*6)>/).size
puts Marshal.load(Marshal.dump(table.to_a)).size
strings = (1..400).map { |i| +'x' * (i * 500) }
400.times { |i| strings[i]&.concat('y' * 5000); strings[(i * 7) % 400] = nil if i.odd? }
puts strings.compact.sum(&:size)
