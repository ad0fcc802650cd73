# gawk: associative arrays, fields, substitution, sorting, over a generated log.
{
  count[$3]++
  bytes[$2] += $5
  gsub(/[0-9]+/, "<&>", $4)
  pages[$4] = pages[$4] == "" ? $1 : $1 "," substr(pages[$4], 1, 200)
  n = split($0, parts, /[ \/.:]/)
  for (i = 1; i <= n; i++) words[parts[i]]++
}
END {
  n = asorti(count, order)
  for (i = 1; i <= n; i += 97) print order[i], count[order[i]]
  for (host in bytes) total += bytes[host]
  for (page in pages) length_of_pages += length(pages[page])
  print length(bytes), total, length(pages), length_of_pages, length(words)
}
