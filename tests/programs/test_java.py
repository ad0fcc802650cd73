"""java: its compiler inside the virtual machine, threads, direct buffers, zlib, a collector."""

from pathlib import Path

from harness import Sides, assert_same, write_both

SOURCE = r"""
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;
import java.util.zip.*;

public class Main {
    record Item(String name, int weight) {}

    static String digest(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes), 0, 8);
    }

    static String work(int seed) throws Exception {
        Random random = new Random(seed);
        Map<String, List<Item>> table = new TreeMap<>();
        for (int i = 0; i < 60_000; i++)
            table.computeIfAbsent("key" + random.nextInt(3000), k -> new ArrayList<>()).add(new Item("n" + i, i));
        byte[] text = table.toString().getBytes("UTF-8");
        Deflater deflater = new Deflater(6);
        deflater.setInput(text);
        deflater.finish();
        byte[] packed = new byte[text.length];
        int size = deflater.deflate(packed);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(packed, 0, size);
        byte[] back = new byte[text.length];
        int length = inflater.inflate(back);
        inflater.end();
        long sum = 0;
        for (int i = 0; i < 300; i++) {
            ByteBuffer direct = ByteBuffer.allocateDirect(1000 + random.nextInt(60_000));
            direct.putInt(0, i);
            sum += direct.capacity() + direct.getInt(0);
        }
        return seed + " " + size + " " + (length == text.length) + " " + digest(back) + " " + sum;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<String>> answers = new ArrayList<>();
        for (int i = 0; i < 12; i++) { int seed = i; answers.add(pool.submit(() -> work(seed))); }
        for (Future<String> answer : answers) System.out.println(answer.get());
        pool.shutdown();
        List<Thread> threads = new ArrayList<>();
        LongAdder adder = new LongAdder();
        for (int i = 0; i < 300; i++) { int n = i; Thread t = new Thread(() -> adder.add(n)); threads.add(t); t.start(); }
        for (Thread t : threads) t.join();
        System.out.println(adder.sum());
        System.out.println(IntStream.range(0, 2_000_000).parallel().mapToLong(i -> i * 31L % 1009).sum());
        Path zip = Path.of("work.zip"); // not a temporary file: those go to /tmp, whatever TMPDIR says
        try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(zip))) {
            for (int i = 0; i < 200; i++) { out.putNextEntry(new ZipEntry("e" + i)); out.write(new byte[i * 997]); out.closeEntry(); }
        }
        try (ZipFile file = new ZipFile(zip.toFile())) {
            System.out.println(file.stream().mapToLong(ZipEntry::getSize).sum() + " in " + file.size());
        }
        Process child = new ProcessBuilder("/bin/echo", "from", "a", "child").inheritIO().start();
        System.out.println("child " + child.waitFor());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("bye")));
    }
}
"""


def test_threads(sides: Sides) -> None:
    [java] = Path("/usr/lib/jvm").glob("java-17-openjdk-*/bin/java")
    write_both(sides, "Main.java", SOURCE)
    # CompileThresholdScaling puts the optimising compiler, a heavy user of malloc, to work early.
    # The performance data would be a file of /tmp that says nothing here.
    options = ("-Xmx256m", "-XX:+UseG1GC", "-XX:CompileThresholdScaling=0.2", "-XX:-UsePerfData")
    out = assert_same(sides, java, *options, "Main.java", timeout=200)
    assert "44850\n" in out and out.endswith("child 0\nbye\n")
