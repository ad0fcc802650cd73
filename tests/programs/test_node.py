"""node with workers: each is a thread with an engine and a heap of its own, made and ended."""

from harness import Sides, assert_same, write_both

SCRIPT = r"""
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), { spawnSync } = require('child_process');
const { promisify } = require('util');

function work(seed, rounds) {
  const hash = crypto.createHash('sha256');
  const table = new Map();
  let x = seed;
  for (let i = 0; i < rounds; i++) {
    x = (Math.imul(x, 1103515245) + 12345) >>> 0;
    table.set('key' + (x % 5000), { text: 'v'.repeat(x % 90), list: [i, x] });
    if (i % 3 === 0) table.delete('key' + ((x >>> 8) % 5000));
    if (i % 500 === 0) hash.update(Buffer.alloc((x % 200) * 1000, i & 255));
  }
  const text = JSON.stringify([...table].sort((a, b) => (a[0] < b[0] ? -1 : 1)));
  hash.update(zlib.gunzipSync(zlib.gzipSync(text)));
  return { digest: hash.digest('hex'), size: JSON.parse(text).length, packed: zlib.deflateSync(text).length };
}

if (!isMainThread) {
  const shared = new Int32Array(workerData.shared);
  const result = work(workerData.seed, 40000);
  for (let i = 0; i < 1000; i++) Atomics.add(shared, 0, 1);
  const buffer = new ArrayBuffer(3_000_000);
  new Uint8Array(buffer).fill(workerData.seed);
  parentPort.postMessage({ result, buffer }, [buffer]);
} else {
  (async () => {
    const shared = new SharedArrayBuffer(64);
    const run = (seed) => new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: { seed, shared } });
      let answer;
      worker.on('message', (m) => { answer = m; });
      worker.on('error', reject);
      worker.on('exit', (code) => (code === 0 ? resolve(answer) : reject(new Error('exit ' + code))));
    });
    for (let wave = 0; wave < 3; wave++) {
      const answers = await Promise.all([1, 2, 3, 4].map((n) => run(wave * 10 + n)));
      for (const { result, buffer } of answers)
        console.log(result, buffer.byteLength, new Uint8Array(buffer).reduce((a, b) => a + b, 0));
    }
    console.log('added', new Int32Array(shared)[0]);
    console.log('here', work(99, 60000));
    // The engine's own thread pool, and memory that the collector returns late.
    const scrypt = promisify(crypto.scrypt);
    const keys = await Promise.all([...Array(8).keys()].map((i) => scrypt('pw' + i, 'salt', 32, { N: 4096 })));
    console.log(keys.map((k) => k.toString('hex').slice(0, 8)).join(' '));
    let kept = 0;
    for (let i = 0; i < 3000; i++) kept += Buffer.allocUnsafeSlow(1000 + (i * 7919) % 100000).length;
    console.log(kept);
    console.log(spawnSync(process.execPath, ['-p', '[..."abc"].map(c => c.charCodeAt(0)).join()']).stdout.toString());
  })();
}
"""


def test_workers(sides: Sides) -> None:
    write_both(sides, "script.js", SCRIPT)
    out = assert_same(sides, "/usr/bin/node", "script.js", timeout=200)
    assert "added 12000\n" in out and "97,98,99\n" in out
