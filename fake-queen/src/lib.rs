//! A faithful, durable Queen MQ: the embedded default, and the double the tests run against.
