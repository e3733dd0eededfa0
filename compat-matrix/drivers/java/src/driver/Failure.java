package driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownServerException;
import org.apache.kafka.common.protocol.Errors;

/** Exceptions as Kafka's names of error codes. */
final class Failure {
    private Failure() {}

    static ObjectNode toJson(Throwable failure) {
        Throwable cause = cause(failure);
        return Json.object().put("code", code(cause)).put("message", words(cause));
    }

    /** The name of the code that the broker answered; null for the client's own failures. */
    static String code(Throwable failure) {
        Throwable cause = cause(failure);
        // The client throws it for its own clock as well, and a broker's is retried until then.
        if (cause instanceof TimeoutException) {
            return null;
        }
        // The consumer has an exception of its own for what the broker answered.
        if (cause instanceof OffsetOutOfRangeException) {
            return Errors.OFFSET_OUT_OF_RANGE.name();
        }
        Errors error = Errors.forException(cause);
        boolean unknown =
                error == Errors.UNKNOWN_SERVER_ERROR && !(cause instanceof UnknownServerException);
        return unknown || error == Errors.NONE ? null : error.name();
    }

    /** The code if there is one, else the exception in its own words. */
    static String codeOrWords(Throwable failure) {
        String code = code(failure);
        return code == null ? words(cause(failure)) : code;
    }

    static String words(Throwable failure) {
        Throwable cause = cause(failure);
        String code = code(cause);
        String name = code == null ? cause.getClass().getSimpleName() : code;
        return name + ": " + cause.getMessage();
    }

    /** Without what futures wrap around, and down to the failure that a KafkaException reports. */
    static Throwable cause(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null
                && (cause instanceof ExecutionException
                        || cause instanceof CompletionException
                        || cause instanceof RetriableCommitFailedException
                        || cause.getClass() == org.apache.kafka.common.KafkaException.class)) {
            cause = cause.getCause();
        }
        return cause;
    }
}
