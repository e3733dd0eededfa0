package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"drivers/lines"
)

func common(begin lines.Begin) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(begin.Bootstrap, ",")...),
		kgo.ClientID(begin.ClientID),
	}
	config, err := begin.TLSConfig()
	if config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if who := begin.SASL; who != nil {
		switch who.Mechanism {
		case "PLAIN":
			opts = append(opts, kgo.SASL(plain.Auth{User: who.Username, Pass: who.Password}.AsMechanism()))
		case "SCRAM-SHA-256":
			opts = append(opts, kgo.SASL(scram.Auth{User: who.Username, Pass: who.Password}.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			opts = append(opts, kgo.SASL(scram.Auth{User: who.Username, Pass: who.Password}.AsSha512Mechanism()))
		default:
			return nil, lines.Unsupported(who.Mechanism)
		}
	}
	return opts, err
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

func both(settings lines.Settings) []kgo.Opt {
	var opts []kgo.Opt
	if ms := settings.MetadataRefreshMs; ms != nil {
		age := lines.Ms(*ms)
		opts = append(opts, kgo.MetadataMaxAge(age), kgo.MetadataMinAge(min(age, 250*time.Millisecond)))
	}
	if ms := settings.RequestTimeoutMs; ms != nil {
		// A produce request waits for both.
		half := max(100*time.Millisecond, lines.Ms(*ms)/2)
		opts = append(opts, kgo.ProduceRequestTimeout(half), kgo.RequestTimeoutOverhead(half))
	}
	if ms := settings.RetryBackoffMs; ms != nil {
		opts = append(opts, kgo.RetryBackoffFn(func(int) time.Duration { return lines.Ms(*ms) }))
	}
	return opts
}

func producerOpts(settings lines.Settings) ([]kgo.Opt, error) {
	opts := append(both(settings),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
		// Producers of other clients let the broker create a topic unless they are told not to.
		kgo.AllowAutoTopicCreation(),
	)
	acks, plain := kgo.AllISRAcks(), settings.Idempotence != nil && !*settings.Idempotence
	if settings.Acks != nil && *settings.Acks != "all" {
		// The client is idempotent unless it is asked not to be, and then wants all acknowledgements.
		plain = true
		acks = kgo.LeaderAck()
		if *settings.Acks == "0" {
			acks = kgo.NoAck()
		}
	}
	opts = append(opts, kgo.RequiredAcks(acks))
	if plain {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if id := settings.TransactionalID; id != nil {
		opts = append(opts, kgo.TransactionalID(*id))
	}
	if ms := settings.TransactionTimeoutMs; ms != nil {
		opts = append(opts, kgo.TransactionTimeout(lines.Ms(*ms)))
	}
	if word := settings.Compression; word != nil {
		codec, known := codecs[*word]
		if !known {
			return nil, lines.Unsupported("codec." + *word)
		}
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	} else {
		opts = append(opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	}
	if bytes := settings.MaxRequestBytes; bytes != nil {
		opts = append(opts, kgo.ProducerBatchMaxBytes(*bytes))
	} else if bytes := settings.BatchBytes; bytes != nil {
		opts = append(opts, kgo.ProducerBatchMaxBytes(*bytes))
	}
	if ms := settings.LingerMs; ms != nil {
		opts = append(opts, kgo.ProducerLinger(lines.Ms(*ms)))
	}
	if count := settings.MaxInFlight; count != nil && plain {
		opts = append(opts, kgo.MaxProduceRequestsInflightPerBroker(*count))
	}
	if ms := settings.DeliveryTimeoutMs; ms != nil {
		opts = append(opts, kgo.RecordDeliveryTimeout(max(time.Second, lines.Ms(*ms))))
	}
	return opts, nil
}

func consumerOpts(settings lines.Settings) ([]kgo.Opt, error) {
	opts := both(settings)
	reset := kgo.NewOffset().AtEnd()
	if word := settings.OffsetReset; word != nil {
		switch *word {
		case "earliest":
			reset = kgo.NewOffset().AtStart()
		case "error":
			reset = kgo.NoResetOffset()
		}
	}
	opts = append(opts, kgo.ConsumeResetOffset(reset))
	if word := settings.Isolation; word != nil && *word == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if ms := settings.FetchMaxWaitMs; ms != nil {
		opts = append(opts, kgo.FetchMaxWait(lines.Ms(*ms)))
	}
	if bytes := settings.FetchMaxBytes; bytes != nil {
		opts = append(opts, kgo.FetchMaxBytes(*bytes), kgo.FetchMaxPartitionBytes(*bytes))
	}
	if settings.AutoCreateTopics != nil && *settings.AutoCreateTopics {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	return opts, nil
}

// memberOpts are for members of a group; the client refuses them without one.
func memberOpts(settings lines.Settings) ([]kgo.Opt, error) {
	if settings.GroupID == nil {
		return nil, fmt.Errorf("a subscription needs a group")
	}
	opts := []kgo.Opt{kgo.ConsumerGroup(*settings.GroupID)}
	if id := settings.GroupInstanceID; id != nil {
		opts = append(opts, kgo.InstanceID(*id))
	}
	if on := settings.AutoCommit; on != nil && !*on {
		opts = append(opts, kgo.DisableAutoCommit())
	} else if ms := settings.AutoCommitIntervalMs; ms != nil {
		opts = append(opts, kgo.AutoCommitInterval(lines.Ms(*ms)))
	}
	if ms := settings.SessionTimeoutMs; ms != nil {
		opts = append(opts, kgo.SessionTimeout(lines.Ms(*ms)))
	}
	if ms := settings.HeartbeatIntervalMs; ms != nil {
		opts = append(opts, kgo.HeartbeatInterval(lines.Ms(*ms)))
	}
	if ms := settings.MaxPollIntervalMs; ms != nil {
		opts = append(opts, kgo.RebalanceTimeout(lines.Ms(*ms)))
	}
	if word := settings.GroupProtocol; word != nil && *word == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	if len(settings.Assignors) > 0 {
		var chosen []kgo.GroupBalancer
		for _, word := range settings.Assignors {
			chosen = append(chosen, balancers[word]())
		}
		opts = append(opts, kgo.Balancers(chosen...))
	}
	return opts, nil
}
