//! A faithful Kafka cluster and AMQP broker with fault hooks.
