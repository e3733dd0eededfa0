package driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Topics, configurations, groups and the cluster, through the admin client. */
final class Administration implements AutoCloseable {
    private final AdminClient admin;

    Administration(Properties properties) {
        admin = AdminClient.create(properties);
    }

    JsonNode perform(String name, JsonNode op) throws Exception {
        return switch (name) {
            case "metadata" -> metadata(op.get("topic"));
            case "create_topics" -> createTopics(op);
            case "delete_topics" -> outcomes(Era.deleteTopics(admin, Json.strings(op.get("topics"))));
            case "create_partitions" -> outcomes(
                    admin.createPartitions(
                                    Map.of(
                                            op.get("topic").asText(),
                                            NewPartitions.increaseTo(op.get("count").asInt())))
                            .values());
            case "delete_records" -> deleteRecords(op.get("partitions"));
            case "list_offsets" -> Json.places(
                    Era.listOffsets(admin, times(op.get("partitions"))), Long::longValue);
            case "describe_topic_config" -> describeConfig(op.get("topic").asText());
            case "alter_topic_config" -> {
                List<ConfigEntry> entries = new ArrayList<>();
                Json.entries(op.get("config")).forEach((k, v) -> entries.add(new ConfigEntry(k, v)));
                ConfigResource topic = topic(op.get("topic").asText());
                yield named(Era.alterConfigs(admin, topic, new Config(entries)));
            }
            case "change_topic_config" -> named(
                    Era.changeConfigs(
                            admin,
                            topic(op.get("topic").asText()),
                            Json.entries(op.get("set")),
                            Json.strings(op.get("delete"))));
            case "groups" -> groups(op.get("group"));
            case "delete_groups" -> outcomes(
                    admin.deleteConsumerGroups(Json.strings(op.get("groups"))).deletedGroups());
            case "group_offsets" -> Consuming.withMetadata(
                    get(
                            admin.listConsumerGroupOffsets(op.get("group").asText())
                                    .partitionsToOffsetAndMetadata()));
            case "alter_group_offsets" -> {
                Era.alterGroupOffsets(
                        admin, op.get("group").asText(), Consuming.offsets(op.get("offsets")));
                yield Json.object();
            }
            case "delete_group_offsets" -> {
                Era.deleteGroupOffsets(
                        admin, op.get("group").asText(), Json.partitions(op.get("partitions")));
                yield Json.object();
            }
            case "describe_cluster" -> describeCluster();
            case "describe_log_dirs" -> Json.places(
                    Era.logSizes(admin, op.get("node").asInt()), Long::longValue);
            default -> throw new Unsupported(name);
        };
    }

    /** Waits a bounded time. */
    static <T> T get(KafkaFuture<T> future)
            throws ExecutionException, InterruptedException, TimeoutException {
        return future.get(Settings.CALL_MS, TimeUnit.MILLISECONDS);
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private static <T> ObjectNode outcomes(Map<String, KafkaFuture<T>> futures)
            throws InterruptedException {
        ObjectNode answer = Json.object();
        ObjectNode outcomes = answer.putObject("outcomes");
        for (Map.Entry<String, KafkaFuture<T>> each : futures.entrySet()) {
            try {
                get(each.getValue());
                outcomes.putNull(each.getKey());
            } catch (ExecutionException | TimeoutException failure) {
                outcomes.put(each.getKey(), Failure.codeOrWords(failure));
            }
        }
        return answer;
    }

    private static ObjectNode named(Map<ConfigResource, KafkaFuture<Void>> futures)
            throws InterruptedException {
        Map<String, KafkaFuture<Void>> byName = new HashMap<>();
        futures.forEach((resource, future) -> byName.put(resource.name(), future));
        return outcomes(byName);
    }

    private ObjectNode metadata(JsonNode topic) throws Exception {
        Collection<String> names =
                topic.isNull() ? get(admin.listTopics().names()) : List.of(topic.asText());
        ObjectNode answer = Json.object();
        ObjectNode topics = answer.putObject("topics");
        ObjectNode errors = answer.putObject("errors");
        for (Map.Entry<String, KafkaFuture<TopicDescription>> each :
                Era.describeTopics(admin, names).entrySet()) {
            try {
                topics.put(each.getKey(), get(each.getValue()).partitions().size());
            } catch (ExecutionException failure) {
                String code = Failure.code(failure);
                if (code == null) {
                    throw failure;
                }
                topics.put(each.getKey(), 0);
                errors.put(each.getKey(), code);
            }
        }
        answer.set("brokers", brokers(get(admin.describeCluster().nodes())));
        return answer;
    }

    private static ObjectNode brokers(Collection<Node> nodes) {
        ObjectNode brokers = Json.object();
        nodes.forEach(node -> brokers.put(node.idString(), node.host() + ":" + node.port()));
        return brokers;
    }

    private ObjectNode createTopics(JsonNode op) throws InterruptedException {
        List<NewTopic> wanted = new ArrayList<>();
        for (JsonNode topic : op.get("topics")) {
            wanted.add(
                    new NewTopic(
                                    topic.get("name").asText(),
                                    topic.get("partitions").asInt(),
                                    (short) 1)
                            .configs(Json.entries(topic.path("config"))));
        }
        CreateTopicsOptions options =
                new CreateTopicsOptions().validateOnly(op.get("validate_only").asBoolean());
        return outcomes(admin.createTopics(wanted, options).values());
    }

    private ObjectNode deleteRecords(JsonNode places) throws Exception {
        Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
        places.forEach(
                place ->
                        wanted.put(
                                Json.partition(place),
                                RecordsToDelete.beforeOffset(place.get("offset").asLong())));
        Map<TopicPartition, Long> starts = new HashMap<>();
        for (Map.Entry<TopicPartition, KafkaFuture<DeletedRecords>> each :
                admin.deleteRecords(wanted).lowWatermarks().entrySet()) {
            starts.put(each.getKey(), get(each.getValue()).lowWatermark());
        }
        return Json.places(starts, Long::longValue);
    }

    private static Map<TopicPartition, Long> times(JsonNode places) {
        Map<TopicPartition, Long> times = new HashMap<>();
        places.forEach(place -> times.put(Json.partition(place), place.get("offset").asLong()));
        return times;
    }

    private ObjectNode describeConfig(String name) throws Exception {
        ConfigResource topic = topic(name);
        Config config = get(admin.describeConfigs(List.of(topic)).values().get(topic));
        ObjectNode answer = Json.object();
        ObjectNode entries = answer.putObject("entries");
        ArrayNode dynamic = answer.putArray("dynamic");
        config.entries().stream()
                .sorted((a, b) -> a.name().compareTo(b.name()))
                .forEach(
                        entry -> {
                            entries.put(entry.name(), entry.value());
                            if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
                                dynamic.add(entry.name());
                            }
                        });
        return answer;
    }

    private ObjectNode groups(JsonNode one) throws Exception {
        List<String> ids = new ArrayList<>();
        if (one.isNull()) {
            get(admin.listConsumerGroups().all()).forEach(listed -> ids.add(listed.groupId()));
        } else {
            ids.add(one.asText());
        }
        ObjectNode answer = Json.object();
        ArrayNode groups = answer.putArray("groups");
        for (KafkaFuture<ConsumerGroupDescription> each :
                admin.describeConsumerGroups(ids).describedGroups().values()) {
            ConsumerGroupDescription group = get(each);
            ObjectNode found =
                    groups.addObject()
                            .put("id", group.groupId())
                            .put("state", group.state().toString())
                            .put("protocol", group.partitionAssignor());
            ArrayNode clients = found.putArray("client_ids");
            group.members().stream().map(m -> m.clientId()).sorted().forEach(clients::add);
        }
        return answer;
    }

    private ObjectNode describeCluster() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        ObjectNode answer =
                Json.object()
                        .put("id", get(cluster.clusterId()))
                        .put("controller", get(cluster.controller()).id());
        answer.set("brokers", brokers(get(cluster.nodes())));
        return answer;
    }

    @Override
    public void close() {
        Era.close(admin);
    }
}
