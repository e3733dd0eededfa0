package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/** An application of Kafka Streams that counts words, its counts in memory and in the cluster. */
final class WordCount implements AutoCloseable {
    private static final Duration RUNS_WITHIN = Duration.ofSeconds(30);
    private static final Duration ENDS_WITHIN = Duration.ofSeconds(20);
    private static final String STORE = "counts";

    private final Path folder;
    private final KafkaStreams streams;

    WordCount(Properties settings, JsonNode op) throws IOException {
        folder = Files.createTempDirectory("driver-streams-");
        settings.put("application.id", op.get("application").asText());
        settings.put("state.dir", folder.toString());
        streams = new KafkaStreams(topology(op), settings);
        streams.start();
    }

    private static Topology topology(JsonNode op) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(op.get("input").asText(), Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(STORE, Serdes.String(), Serdes.String()))
                .count(
                        Materialized.<String, Long>as(Stores.inMemoryKeyValueStore(STORE))
                                .withKeySerde(Serdes.String())
                                .withValueSerde(Serdes.Long()))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(op.get("output").asText(), Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    void awaitRunning() throws InterruptedException {
        long deadline = System.nanoTime() + RUNS_WITHIN.toNanos();
        while (streams.state() != KafkaStreams.State.RUNNING) {
            if (System.nanoTime() > deadline || streams.state() == KafkaStreams.State.ERROR) {
                throw new IllegalStateException("the application is " + streams.state());
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void close() {
        boolean ended = streams.close(ENDS_WITHIN);
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path each : (Iterable<Path>) all.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(each);
            }
        } catch (IOException left) {
            System.err.println("left behind: " + left);
        }
        if (!ended) {
            throw new IllegalStateException("the application did not end");
        }
    }
}
