// node: buffers outside the engine's heap, maps and strings inside it, zlib, the compiler's own needs.
const crypto = require('crypto'), zlib = require('zlib');
const hash = crypto.createHash('sha256');
const table = new Map();
let x = 42;
for (let i = 0; i < 400000; i++) {
  x = (Math.imul(x, 1103515245) + 12345) >>> 0;
  table.set('key' + (x % 20000), { text: 'v'.repeat(x % 90), list: [i, x] });
  if (i % 3 === 0) table.delete('key' + ((x >>> 8) % 20000));
  if (i % 100 === 0) hash.update(Buffer.allocUnsafeSlow((x % 200) * 400).fill(i & 255));
}
const text = JSON.stringify([...table].sort((a, b) => (a[0] < b[0] ? -1 : 1)));
const kept = [];
for (let i = 0; i < 4000; i++) {
  kept[(i * 7919) % 500] = Buffer.allocUnsafeSlow(1000 + (i * 104729) % 60000).fill(i & 255);
}
console.log(hash.digest('hex'), text.length, JSON.parse(text).length);
console.log(kept.reduce((sum, buffer) => sum + buffer.length, 0));
for (let i = 0; i < 4; i++) {
  console.log(zlib.inflateSync(zlib.deflateSync(text.slice(i * 1000))).length);
}
