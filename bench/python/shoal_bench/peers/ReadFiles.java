// Reads every file below a directory: a shared list of tasks and a fixed number of threads that take from it, as in "Multi
// Threaded File IO" (2019). Each thread keeps what it has read only as long as it takes to count it.
//
//     java ReadFiles.java DIRECTORY THREADS [--verify]
//
// It prints one line of JSON. The time is that of the walk and the threads: not the start of the JVM, not the compiler's.

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import java.util.zip.CRC32;

public class ReadFiles {
    record Tally(long objects, long bytes, long proof) {}

    private final Path directory;
    private final boolean verify;
    private final List<Path> tasks;
    private final AtomicInteger next = new AtomicInteger();

    ReadFiles(Path directory, boolean verify) throws IOException {
        this.directory = directory;
        this.verify = verify;
        try (Stream<Path> walk = Files.walk(directory)) {
            tasks = walk.filter(Files::isRegularFile).toList();
        }
    }

    /** Takes tasks from the list until it is empty, in one of the threads. */
    private Tally work() throws IOException {
        long objects = 0;
        long bytes = 0;
        long proof = 0;
        for (int at = next.getAndIncrement(); at < tasks.size(); at = next.getAndIncrement()) {
            Path path = tasks.get(at);
            byte[] data = Files.readAllBytes(path);
            objects++;
            bytes += data.length;
            if (verify) {
                proof += proof(path, data);
            }
        }
        return new Tally(objects, bytes, proof);
    }

    /** A number that a file's name and content give; the sum over all files is what the lab compares. */
    private long proof(Path path, byte[] data) {
        CRC32 crc = new CRC32();
        crc.update(directory.relativize(path).toString().getBytes(StandardCharsets.UTF_8));
        crc.update(data);
        return crc.getValue();
    }

    public static void main(String[] arguments) throws IOException, InterruptedException, ExecutionException {
        int workers = Integer.parseInt(arguments[1]);
        boolean verify = arguments.length > 2 && arguments[2].equals("--verify");
        long began = System.nanoTime();
        ReadFiles job = new ReadFiles(Path.of(arguments[0]), verify);
        ExecutorService threads = Executors.newFixedThreadPool(workers);
        List<Future<Tally>> running = new ArrayList<>();
        for (int number = 0; number < workers; number++) {
            running.add(threads.submit(job::work));
        }
        threads.shutdown();
        long objects = 0;
        long bytes = 0;
        long proof = 0;
        for (Future<Tally> one : running) {
            Tally tally = one.get();
            objects += tally.objects();
            bytes += tally.bytes();
            proof += tally.proof();
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.printf(
            Locale.ROOT,
            "{\"objects\": %d, \"bytes\": %d, \"seconds\": %.9f, \"workers\": %d%s}%n",
            objects, bytes, seconds, workers, verify ? ", \"proof\": " + proof : "");
    }
}
