package driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * What Apache Flink does to a producer by reflection, since kafka-clients has no call for it: it notes
 * the id and epoch of a transaction that it has prepared, and after a failure commits it as another
 * producer that takes them on and asks for none of its own.
 */
final class Identity {
    private static final String INTERNALS = "org.apache.kafka.clients.producer.internals.";

    private Identity() {}

    static ObjectNode of(KafkaProducer<?, ?> producer) throws ReflectiveOperationException {
        Object identity = get(get(producer, "transactionManager"), "producerIdAndEpoch");
        ObjectNode answer = Json.object();
        answer.put("producer_id", (long) get(identity, "producerId"));
        answer.put("epoch", (short) get(identity, "epoch"));
        return answer;
    }

    static void resume(KafkaProducer<?, ?> producer, long id, short epoch)
            throws ReflectiveOperationException {
        Object manager = get(producer, "transactionManager");
        synchronized (manager) {
            move(manager, "INITIALIZING");
            Field identity = field(manager, "producerIdAndEpoch");
            Constructor<?> constructor =
                    identity.getType().getDeclaredConstructor(long.class, short.class);
            constructor.setAccessible(true);
            identity.set(manager, constructor.newInstance(id, epoch));
            move(manager, "READY");
            move(manager, "IN_TRANSACTION");
            field(manager, "transactionStarted").set(manager, true);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void move(Object manager, String state) throws ReflectiveOperationException {
        Class<Enum> states = (Class<Enum>) Class.forName(INTERNALS + "TransactionManager$State");
        Method move = manager.getClass().getDeclaredMethod("transitionTo", states);
        move.setAccessible(true);
        move.invoke(manager, Enum.valueOf(states, state));
    }

    private static Object get(Object of, String name) throws ReflectiveOperationException {
        return field(of, name).get(of);
    }

    private static Field field(Object of, String name) throws NoSuchFieldException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
