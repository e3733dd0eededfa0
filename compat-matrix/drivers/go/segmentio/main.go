// The driver of kafka-go by segmentio: Writer and Reader for records, Client for administration.
package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"drivers/lines"
)

const callTime = 15 * time.Second

var client = lines.Client{
	Name:   "kafka-go",
	Module: "github.com/segmentio/kafka-go",
	Lacks: []string{
		"abort_transaction",
		"alter_group_offsets",
		// A reader does not tell what it holds.
		"assignment",
		"assignor.cooperative-sticky",
		"assignor.sticky",
		"begin_transaction",
		"commit.metadata",
		"commit_transaction",
		"delete_records",
		"describe_log_dirs",
		"group_protocol.classic",
		"group_protocol.consumer",
		"init_transactions",
		"list_offsets",
		"pause",
		// What is empty comes as absent.
		"record.header_null",
		"record.tombstone",
		"resume",
		"send_offsets",
		"setting.auto_create_topics",
		"setting.delivery_timeout_ms",
		"setting.group_instance_id",
		"setting.group_protocol",
		"setting.idempotence",
		"setting.max_in_flight",
		"setting.reconnect_backoff_max_ms",
		"setting.reconnect_backoff_ms",
		"setting.topic_propagation_ms",
		"setting.transaction_timeout_ms",
		"setting.transactional_id",
		"subscribe.pattern",
	},
	Open: open,
	Code: code,
}

func main() { lines.Serve(client) }

func code(err error) (int16, bool) {
	var one kafka.Error
	var several kafka.WriteErrors
	if errors.As(err, &several) {
		for _, each := range several {
			if each != nil {
				return code(each)
			}
		}
	}
	return int16(one), errors.As(err, &one)
}

type session struct {
	addresses []string
	transport *kafka.Transport
	dialer    *kafka.Dialer
	client    *kafka.Client
	producer  *producer
	consumer  *consumer
}

func open(begin lines.Begin) (lines.Session, error) {
	config, err := begin.TLSConfig()
	if err != nil {
		return nil, err
	}
	mechanism, err := mechanism(begin)
	if err != nil {
		return nil, err
	}
	addresses := strings.Split(begin.Bootstrap, ",")
	transport := &kafka.Transport{
		ClientID: begin.ClientID, TLS: config, SASL: mechanism, DialTimeout: 5 * time.Second,
	}
	dialer := &kafka.Dialer{
		ClientID: begin.ClientID, TLS: config, SASLMechanism: mechanism, Timeout: 5 * time.Second,
	}
	return &session{
		addresses: addresses,
		transport: transport,
		dialer:    dialer,
		client:    &kafka.Client{Addr: kafka.TCP(addresses...), Timeout: callTime, Transport: transport},
	}, nil
}

func mechanism(begin lines.Begin) (sasl.Mechanism, error) {
	who := begin.SASL
	if who == nil {
		return nil, nil
	}
	switch who.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: who.Username, Password: who.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, who.Username, who.Password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, who.Username, who.Password)
	}
	return nil, lines.Unsupported(who.Mechanism)
}

// bounded is a context for one call; nothing here waits for ever.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callTime)
}

func (s *session) Perform(op string, line lines.Line) (any, error) {
	switch op {
	case "open_producer":
		s.closeProducer()
		return lines.Nothing, s.openProducer(line)
	case "close_producer":
		s.closeProducer()
		return lines.Nothing, nil
	case "open_consumer":
		s.closeConsumer()
		return lines.Nothing, s.openConsumer(line)
	case "close_consumer":
		s.closeConsumer()
		return lines.Nothing, nil
	case "produce", "produce_numbers":
		if s.producer == nil {
			return nil, errors.New("this session has no producer open")
		}
		return s.producer.produce(line)
	}
	if call, ok := consuming[op]; ok {
		if s.consumer == nil {
			return nil, errors.New("this session has no consumer open")
		}
		return call(s.consumer, line)
	}
	call, ok := administration[op]
	if !ok {
		return nil, lines.Unsupported(op)
	}
	ctx, cancel := bounded()
	defer cancel()
	return call(ctx, s.client, line)
}

func (s *session) closeProducer() {
	if s.producer != nil {
		// What it says in closing, nobody can act on.
		_ = s.producer.writer.Close()
	}
	s.producer = nil
}

func (s *session) closeConsumer() {
	if s.consumer != nil {
		s.consumer.stop()
	}
	s.consumer = nil
}

func (s *session) Close() {
	s.closeProducer()
	s.closeConsumer()
	s.transport.CloseIdleConnections()
}
