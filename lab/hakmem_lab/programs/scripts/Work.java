// java: its compiler inside the virtual machine, just-in-time compilers, buffers outside its heap.
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Work {
    record Item(String name, int weight) {}

    static String work(int seed) throws Exception {
        Random random = new Random(seed);
        Map<String, List<Item>> table = new TreeMap<>();
        for (int i = 0; i < 40_000; i++)
            table.computeIfAbsent("key" + random.nextInt(3000), k -> new ArrayList<>())
                .add(new Item("n" + i, i));
        byte[] text = table.toString().getBytes("UTF-8");
        Deflater deflater = new Deflater(6);
        deflater.setInput(text);
        deflater.finish();
        int size = deflater.deflate(new byte[text.length]);
        deflater.end();
        long sum = 0;
        for (int i = 0; i < 400; i++) {
            ByteBuffer direct = ByteBuffer.allocateDirect(1000 + random.nextInt(60_000));
            direct.putInt(0, i);
            sum += direct.capacity() + direct.getInt(0);
        }
        return seed + " " + size + " " + sum;
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<String>> answers = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            int seed = i;
            answers.add(pool.submit(() -> work(seed)));
        }
        for (Future<String> answer : answers) System.out.println(answer.get());
        pool.shutdown();
    }
}
