"""ruby: a garbage-collected heap of its own beside malloc, compaction, threads, fork, ractors."""

from harness import Sides, assert_same, write_both

SCRIPT = r"""
require 'json'; require 'zlib'; require 'digest'; require 'set'; require 'bigdecimal'
srand(42)
table = Hash.new { |h, k| h[k] = [] }
150_000.times { |i| table["key#{rand(20_000)}"] << i; table.delete("key#{rand(20_000)}") if i % 3 == 0 }
puts table.size, table.values.sum(&:size)
text = JSON.generate(table.sort.to_h)
puts Digest::SHA256.hexdigest(text), JSON.parse(text).size
packed = Zlib::Deflate.deflate(text, 9)
puts packed.bytesize, Zlib::Inflate.inflate(packed) == text
puts text.gsub(/key(\d+)/) { "<#{$1.to_i * 2}>" }.scan(/<(\d*6)>/).size
puts Digest::SHA256.hexdigest(Marshal.dump(table.sort)), Marshal.load(Marshal.dump(table.to_a)).size

GC.start
GC.compact
puts table.values.flatten.sum
strings = (1..200).map { |i| 'x' * (i * 1000) }
200.times { |i| strings[i]&.concat('y' * 5000); strings[(i * 7) % 200] = nil if i.odd? }
puts strings.compact.sum(&:size)

queue = Queue.new
400.times { |i| queue << i }
queue.close
sums = 4.times.map { Thread.new { s = 0; while (n = queue.pop); s += (1..n).map { |v| v.to_s * 3 }.join.size; end; s } }
puts sums.sum(&:value)
puts 4.times.map { |n| Ractor.new(n) { |k| (1..20_000).map { |v| "r#{v * k}" }.sum(&:size) } }.map(&:take).sum
total = 6.times.map { |n|
  reader, writer = IO.pipe
  pid = fork { reader.close; writer.write((1..30_000).map { |v| "c#{v}" }.join.size * n); writer.close; exit 0 }
  writer.close; value = reader.read.to_i; Process.wait(pid); raise 'child' unless $?.success?; value
}.sum
puts total, `echo from a shell`, (1..2500).inject(:*).to_s.size, BigDecimal(2).sqrt(500).to_s.size
fib = Fiber.new { a, b = 0, 1; loop { Fiber.yield a; a, b = b, a + b } }
puts 1000.times.map { fib.resume }.last.to_s[0, 30]
"""


def test_ruby_script(sides: Sides) -> None:
    write_both(sides, "script.rb", SCRIPT)
    out = assert_same(sides, "/usr/bin/ruby", "-W0", "script.rb")
    assert "true\n" in out and "from a shell\n" in out
