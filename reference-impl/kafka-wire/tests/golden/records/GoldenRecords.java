// Writes the golden record batches of this folder with kafka-clients' own classes, and reads
// batches that were written elsewhere. See README.md for how to run it.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.stream.Stream;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;

public final class GoldenRecords {
    private static final long TIMESTAMP = 1_700_000_000_000L;

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[1]);
        switch (args[0]) {
            case "write" -> write(folder);
            case "read" -> read(folder);
            default -> throw new IllegalArgumentException("write FOLDER | read FOLDER");
        }
    }

    private static void write(Path folder) throws Exception {
        for (CompressionType type : CompressionType.values()) {
            save(folder, type.name, batch(RecordBatch.MAGIC_VALUE_V2, Compression.of(type).build(),
                    TimestampType.CREATE_TIME, RecordBatch.NO_TIMESTAMP, false));
        }
        save(folder, "log-append-time", batch(RecordBatch.MAGIC_VALUE_V2, Compression.NONE,
                TimestampType.LOG_APPEND_TIME, TIMESTAMP + 1000, false));
        save(folder, "transactional", batch(RecordBatch.MAGIC_VALUE_V2, Compression.NONE,
                TimestampType.CREATE_TIME, RecordBatch.NO_TIMESTAMP, true));
        save(folder, "magic-0", batch((byte) 0, Compression.NONE,
                TimestampType.NO_TIMESTAMP_TYPE, RecordBatch.NO_TIMESTAMP, false));
        save(folder, "magic-1", batch((byte) 1, Compression.gzip().build(),
                TimestampType.CREATE_TIME, RecordBatch.NO_TIMESTAMP, false));
        for (ControlRecordType type : new ControlRecordType[]{ControlRecordType.COMMIT, ControlRecordType.ABORT}) {
            MemoryRecords marker = MemoryRecords.withEndTransactionMarker(77, TIMESTAMP, 3, 9000, (short) 5,
                    new EndTransactionMarker(type, 42));
            save(folder, "marker-" + type.name().toLowerCase(), marker.buffer());
        }
    }

    private static ByteBuffer batch(byte magic, Compression compression, TimestampType timestamps, long appendTime,
                                    boolean transactional) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 16), magic, compression,
                timestamps, 100, appendTime,
                transactional ? 9000 : RecordBatch.NO_PRODUCER_ID,
                transactional ? (short) 5 : RecordBatch.NO_PRODUCER_EPOCH,
                transactional ? Integer.MAX_VALUE - 1 : RecordBatch.NO_SEQUENCE,
                transactional, false, 7, 1 << 16);
        Header[] headers = magic < 2 ? new Header[0] : new Header[]{
            new RecordHeader("h", (byte[]) null), new RecordHeader("h", new byte[0]), new RecordHeader("ü", utf8("x"))};
        builder.appendWithOffset(100, TIMESTAMP, null, utf8("first"), new Header[0]);
        builder.appendWithOffset(101, TIMESTAMP + 5, new byte[0], null, headers);
        builder.appendWithOffset(102, TIMESTAMP - 5, utf8("key"), new byte[0], new Header[0]);
        builder.appendWithOffset(103, TIMESTAMP + 70_000, utf8("long"), longValue(), new Header[0]);
        return builder.build().buffer();
    }

    private static byte[] longValue() {
        StringBuilder text = new StringBuilder();
        for (int number = 0; number < 200; number++)
            text.append("line ").append(number).append(";");
        return utf8(text.toString());
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void save(Path folder, String name, ByteBuffer bytes) throws Exception {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        String hex = HexFormat.of().formatHex(copy).replaceAll("(.{64})", "$1\n").strip();
        Files.writeString(folder.resolve("java-" + name + ".hex"), hex + "\n");
    }

    /** Prints every record of every `*.bin` in the folder, one a line, as hexadecimal. */
    private static void read(Path folder) throws Exception {
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".bin")).sorted().toList())
                print(file);
        }
    }

    private static void print(Path file) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file)));
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            System.out.printf("%s batch base=%d last=%d epoch=%d codec=%s max=%d producer=%d/%d/%d transactional=%b%n",
                    file.getFileName(), batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(),
                    batch.compressionType(), batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(),
                    batch.baseSequence(), batch.isTransactional());
            for (org.apache.kafka.common.record.internal.Record record : batch) {
                record.ensureValid();
                StringBuilder headers = new StringBuilder();
                for (Header header : record.headers())
                    headers.append(' ').append(header.key()).append('=').append(hex(header.value()));
                System.out.printf("%s record %d %d %s %s%s%n", file.getFileName(), record.offset(), record.timestamp(),
                        hex(record.key()), hex(record.value()), headers);
            }
        }
    }

    private static String hex(Object bytes) {
        if (bytes == null)
            return "null";
        ByteBuffer buffer = bytes instanceof byte[] array ? ByteBuffer.wrap(array) : ((ByteBuffer) bytes).duplicate();
        byte[] copy = new byte[buffer.remaining()];
        buffer.get(copy);
        return "x" + HexFormat.of().formatHex(copy);
    }
}
