package main

import (
	"time"

	"github.com/IBM/sarama"

	"drivers/lines"
)

const callTime = 15 * time.Second

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

// common is what all clients of a session have. The version is the newest the client knows; from
// 1.46 on it takes what the broker advertises where that is older.
func common(begin lines.Begin) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = begin.ClientID
	config.Net.DialTimeout = 5 * time.Second
	config.Net.ReadTimeout = callTime
	config.Net.WriteTimeout = callTime
	config.Admin.Timeout = callTime
	tls, err := begin.TLSConfig()
	config.Net.TLS.Enable, config.Net.TLS.Config = tls != nil, tls
	if who := begin.SASL; who != nil {
		if who.Mechanism != sarama.SASLTypePlaintext {
			return nil, lines.Unsupported(who.Mechanism)
		}
		config.Net.SASL.Enable = true
		config.Net.SASL.User, config.Net.SASL.Password = who.Username, who.Password
	}
	return config, err
}

func both(config *sarama.Config, settings lines.Settings) {
	if ms := settings.MetadataRefreshMs; ms != nil {
		config.Metadata.RefreshFrequency = lines.Ms(*ms)
	}
	if ms := settings.RequestTimeoutMs; ms != nil {
		config.Net.ReadTimeout = lines.Ms(*ms)
	}
	if ms := settings.RetryBackoffMs; ms != nil {
		config.Producer.Retry.Backoff = lines.Ms(*ms)
		config.Metadata.Retry.Backoff = lines.Ms(*ms)
		config.Consumer.Retry.Backoff = lines.Ms(*ms)
	}
}

func configureProducer(config *sarama.Config, settings lines.Settings) error {
	both(config, settings)
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = newPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	if word := settings.Acks; word != nil && *word != "all" {
		config.Producer.RequiredAcks = sarama.WaitForLocal
		if *word == "0" {
			config.Producer.RequiredAcks = sarama.NoResponse
		}
	}
	if word := settings.Compression; word != nil {
		config.Producer.Compression = codecs[*word]
	}
	if on := settings.Idempotence; on != nil {
		config.Producer.Idempotent = *on
	}
	if id := settings.TransactionalID; id != nil {
		config.Producer.Transaction.ID = *id
		config.Producer.Idempotent = true
	}
	if ms := settings.TransactionTimeoutMs; ms != nil {
		config.Producer.Transaction.Timeout = lines.Ms(*ms)
	}
	if config.Producer.Idempotent {
		// The client demands both.
		config.Net.MaxOpenRequests = 1
		config.Producer.RequiredAcks = sarama.WaitForAll
	} else if count := settings.MaxInFlight; count != nil {
		config.Net.MaxOpenRequests = *count
	}
	if bytes := settings.MaxRequestBytes; bytes != nil {
		config.Producer.MaxMessageBytes = int(*bytes)
	}
	if ms := settings.LingerMs; ms != nil {
		config.Producer.Flush.Frequency = lines.Ms(*ms)
	}
	if count := settings.BatchRecords; count != nil {
		config.Producer.Flush.MaxMessages = *count
	}
	if bytes := settings.BatchBytes; bytes != nil {
		config.Producer.Flush.Bytes = int(*bytes)
	}
	return config.Validate()
}

func configureConsumer(config *sarama.Config, settings lines.Settings) error {
	both(config, settings)
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetNewest
	if word := settings.OffsetReset; word != nil && *word == "earliest" {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	if word := settings.Isolation; word != nil && *word == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if ms := settings.FetchMaxWaitMs; ms != nil {
		config.Consumer.MaxWaitTime = lines.Ms(*ms)
		config.Net.ReadTimeout = max(config.Net.ReadTimeout, 2*lines.Ms(*ms))
	}
	if bytes := settings.FetchMaxBytes; bytes != nil {
		config.Consumer.Fetch.Default, config.Consumer.Fetch.Max = *bytes, *bytes
	}
	if on := settings.AutoCreateTopics; on != nil {
		config.Metadata.AllowAutoTopicCreation = *on
	}
	if on := settings.AutoCommit; on != nil {
		config.Consumer.Offsets.AutoCommit.Enable = *on
	}
	if ms := settings.AutoCommitIntervalMs; ms != nil {
		config.Consumer.Offsets.AutoCommit.Interval = lines.Ms(*ms)
	}
	if id := settings.GroupInstanceID; id != nil {
		config.Consumer.Group.InstanceId = *id
	}
	if ms := settings.SessionTimeoutMs; ms != nil {
		config.Consumer.Group.Session.Timeout = lines.Ms(*ms)
	}
	if ms := settings.HeartbeatIntervalMs; ms != nil {
		config.Consumer.Group.Heartbeat.Interval = lines.Ms(*ms)
	}
	if ms := settings.MaxPollIntervalMs; ms != nil {
		config.Consumer.Group.Rebalance.Timeout = lines.Ms(*ms)
	}
	if len(settings.Assignors) > 0 {
		config.Consumer.Group.Rebalance.GroupStrategies = nil
		for _, word := range settings.Assignors {
			chosen := strategies[word]()
			config.Consumer.Group.Rebalance.GroupStrategies = append(
				config.Consumer.Group.Rebalance.GroupStrategies, chosen)
		}
	}
	return config.Validate()
}
