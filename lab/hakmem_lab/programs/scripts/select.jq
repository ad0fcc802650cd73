# jq: every value is a counted block of its own.
group_by(.town)
| map({
    town: .[0].town,
    people: length,
    mean: ((map(.born) | add) / length | floor),
    names: (map(select(.id % 7 == 0) | .name | ascii_upcase | gsub("[0-9]+"; "#")) | unique | .[:3])
  })
| sort_by(-.people, .town)
| (.[:5][] | tojson), (map(.people) | add)
