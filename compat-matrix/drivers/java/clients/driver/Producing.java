package driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sending, waiting for every delivery report, transactions. */
final class Producing implements AutoCloseable {
    static final Set<String> OPERATIONS =
            Set.of(
                    "produce",
                    "produce_numbers",
                    "init_transactions",
                    "begin_transaction",
                    "commit_transaction",
                    "abort_transaction",
                    "transaction_identity",
                    "resume_transaction");

    private final KafkaProducer<byte[], byte[]> producer;

    Producing(Properties properties) {
        producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    JsonNode perform(String name, JsonNode op) throws Exception {
        switch (name) {
            case "produce" -> {
                JsonNode records = op.get("records");
                return send(records.size(), i -> record(records.get(i)), op);
            }
            case "produce_numbers" -> {
                return send(op.get("count").asInt(), i -> number(op, i), op);
            }
            case "init_transactions" -> producer.initTransactions();
            case "begin_transaction" -> producer.beginTransaction();
            case "commit_transaction" -> producer.commitTransaction();
            case "transaction_identity" -> {
                return Identity.of(producer);
            }
            case "resume_transaction" ->
                    Identity.resume(
                            producer,
                            op.get("producer_id").asLong(),
                            (short) op.get("epoch").asInt());
            default -> producer.abortTransaction();
        }
        return Json.object();
    }

    void sendOffsets(JsonNode offsets, Consuming consumer) {
        Era.sendOffsets(producer, Consuming.offsets(offsets), consumer.client(), consumer.group());
    }

    /** A source of records; reading bytes from a JSON tree may fail. */
    private interface Records {
        ProducerRecord<byte[], byte[]> at(int index) throws IOException;
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode record) throws IOException {
        List<Header> headers = new java.util.ArrayList<>();
        for (JsonNode header : record.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        return new ProducerRecord<>(
                record.get("topic").asText(),
                record.get("partition").isNull() ? null : record.get("partition").asInt(),
                record.get("timestamp_ms").isNull() ? null : record.get("timestamp_ms").asLong(),
                bytes(record.get("key")),
                bytes(record.get("value")),
                headers);
    }

    private static byte[] bytes(JsonNode blob) throws IOException {
        return blob.isNull() ? null : blob.binaryValue();
    }

    private static ProducerRecord<byte[], byte[]> number(JsonNode op, int index) {
        byte[] digits =
                String.valueOf(op.get("first").asLong() + index).getBytes(StandardCharsets.US_ASCII);
        int length = Math.max(digits.length, op.get("value_bytes").asInt());
        byte[] value = Arrays.copyOf(digits, length);
        Arrays.fill(value, digits.length, length, (byte) '.');
        String topic = op.get("topic").asText();
        return op.get("partition").isNull()
                ? new ProducerRecord<>(topic, digits, value)
                : new ProducerRecord<>(topic, op.get("partition").asInt(), null, value);
    }

    private ObjectNode send(int count, Records records, JsonNode op)
            throws IOException, InterruptedException {
        long deadline = System.nanoTime() + op.get("timeout_ms").asLong() * 1_000_000;
        RecordMetadata[] places = new RecordMetadata[count];
        Throwable[] failures = new Throwable[count];
        CountDownLatch outstanding = new CountDownLatch(count);
        for (int index = 0; index < count; index++) {
            int at = index;
            try {
                producer.send(
                        records.at(index),
                        (metadata, failure) -> {
                            places[at] = metadata;
                            failures[at] = failure;
                            outstanding.countDown();
                        });
            } catch (KafkaException | IllegalStateException failure) {
                failures[at] = failure;
                outstanding.countDown();
            }
        }
        producer.flush();
        outstanding.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        return deliveries(places, failures);
    }

    private static ObjectNode deliveries(RecordMetadata[] places, Throwable[] failures) {
        ObjectNode answer = Json.object();
        ArrayNode delivered = answer.putArray("places");
        ArrayNode failed = answer.putArray("failed");
        for (int index = 0; index < places.length; index++) {
            if (failures[index] != null) {
                failed.addArray().add(index).add(Failure.words(failures[index]));
            } else if (places[index] == null) {
                failed.addArray().add(index).add("no delivery report in time");
            } else {
                delivered.addArray().add(places[index].partition()).add(places[index].offset());
            }
        }
        return answer;
    }

    @Override
    public void close() {
        Era.close(producer, Duration.ofSeconds(5));
    }
}
