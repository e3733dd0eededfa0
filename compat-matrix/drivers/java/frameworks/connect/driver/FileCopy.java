package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.errors.NotFoundException;
import org.apache.kafka.connect.file.FileStreamSinkConnector;
import org.apache.kafka.connect.file.FileStreamSourceConnector;
import org.apache.kafka.connect.runtime.Connect;
import org.apache.kafka.connect.runtime.Herder;
import org.apache.kafka.connect.runtime.distributed.DistributedHerder;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorInfo;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo;
import org.apache.kafka.connect.storage.StringConverter;
import org.apache.kafka.connect.util.FutureCallback;

/** A distributed worker with two connectors: the lines of a file to a topic, exactly once, and from it to a file. */
final class FileCopy implements AutoCloseable {
    private static final long RUNS_WITHIN_S = 40;

    private final Connect<DistributedHerder> worker;
    private final List<String> connectors;

    FileCopy(Properties common, JsonNode op) throws Exception {
        String application = op.get("application").asText();
        String topic = op.get("topic").asText();
        String source = application + "-source";
        String sink = application + "-sink";
        connectors = List.of(source, sink);
        worker = new ConnectDistributed().startConnect(settings(common, application));
        put(
                source,
                Map.of(
                        "connector.class", FileStreamSourceConnector.class.getName(),
                        "file", op.get("from").asText(),
                        "topic", topic,
                        "exactly.once.support", "required",
                        "tasks.max", "1"));
        put(
                sink,
                Map.of(
                        "connector.class", FileStreamSinkConnector.class.getName(),
                        "file", op.get("to").asText(),
                        "topics", topic,
                        "consumer.override.auto.offset.reset", "earliest",
                        "consumer.override.isolation.level", "read_committed",
                        "tasks.max", "1"));
    }

    private static Map<String, String> settings(Properties common, String application) {
        Map<String, String> all = new HashMap<>();
        for (String name : common.stringPropertyNames()) {
            if (name.equals("default.api.timeout.ms")) {
                continue;
            }
            all.put(name, common.getProperty(name));
            for (String prefix : List.of("producer.", "consumer.", "admin.")) {
                // The connectors' clients are not the worker's.
                if (!name.equals("client.id")) {
                    all.put(prefix + name, common.getProperty(name));
                }
            }
        }
        all.put("group.id", application);
        for (String what : List.of("config", "offset", "status")) {
            all.put(what + ".storage.topic", application + "-" + what);
            all.put(what + ".storage.replication.factor", "1");
        }
        all.put("offset.storage.partitions", "2");
        all.put("status.storage.partitions", "2");
        all.put("key.converter", StringConverter.class.getName());
        all.put("value.converter", StringConverter.class.getName());
        all.put("plugin.discovery", "only_scan");
        all.put("listeners", "http://127.0.0.1:0");
        all.put("exactly.once.source.support", "enabled");
        all.put("offset.flush.interval.ms", "500");
        all.put("session.timeout.ms", "6000");
        all.put("heartbeat.interval.ms", "200");
        all.put("scheduled.rebalance.max.delay.ms", "0");
        return all;
    }

    private void put(String name, Map<String, String> settings) throws Exception {
        Map<String, String> named = new HashMap<>(settings);
        named.put("name", name);
        FutureCallback<Herder.Created<ConnectorInfo>> done = new FutureCallback<>();
        worker.herder().putConnectorConfig(name, named, true, done);
        done.get(RUNS_WITHIN_S, TimeUnit.SECONDS);
    }

    void awaitRunning() throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(RUNS_WITHIN_S);
        for (String connector : connectors) {
            while (!runs(connector)) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(connector + " does not run");
                }
                Thread.sleep(50);
            }
        }
    }

    private boolean runs(String connector) {
        try {
            ConnectorStateInfo state = worker.herder().connectorStatus(connector);
            List<ConnectorStateInfo.TaskState> tasks = state.tasks();
            for (ConnectorStateInfo.TaskState task : tasks) {
                if (task.state().equals("FAILED")) {
                    throw new IllegalStateException(connector + " failed: " + task.trace());
                }
            }
            return tasks.size() == 1 && tasks.get(0).state().equals("RUNNING");
        } catch (NotFoundException notYet) {
            return false;
        }
    }

    @Override
    public void close() {
        worker.stop();
        worker.awaitStop();
    }
}
