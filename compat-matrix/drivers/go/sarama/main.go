// The driver of sarama.
package main

import (
	"errors"
	"strings"

	"github.com/IBM/sarama"

	"drivers/lines"
)

var client = lines.Client{
	Name:   "sarama",
	Module: "github.com/IBM/sarama",
	Lacks: []string{
		"alter_group_offsets",
		"assignor.cooperative-sticky",
		// It does not tell the new start.
		"delete_records",
		// It does not tell the cluster's id.
		"describe_cluster",
		"group_protocol.classic",
		"group_protocol.consumer",
		"list_offsets",
		"offset_reset.error",
		"partitioner.murmur2",
		// The user has to bring the mechanism.
		"security.scram",
		// Offsets go into a transaction by the messages they came with.
		"send_offsets",
		"setting.delivery_timeout_ms",
		"setting.group_protocol",
		"setting.partitioner",
		"setting.reconnect_backoff_max_ms",
		"setting.reconnect_backoff_ms",
		"setting.topic_propagation_ms",
		"subscribe.pattern",
	},
	Open: open,
	Code: code,
}

func main() { lines.Serve(client) }

// code finds the broker's code under what the client wraps around it.
func code(err error) (int16, bool) {
	var (
		kafka     sarama.KError
		topic     *sarama.TopicError
		partition *sarama.TopicPartitionError
	)
	switch {
	case errors.As(err, &topic):
		kafka = topic.Err
	case errors.As(err, &partition):
		kafka = partition.Err
	case !errors.As(err, &kafka):
		return 0, false
	}
	return int16(kafka), kafka != sarama.ErrNoError
}

type session struct {
	begin    lines.Begin
	producer *producer
	consumer *consumer
	// admin and its client are opened when an operation needs them.
	admin *administration
}

func open(begin lines.Begin) (lines.Session, error) { return &session{begin: begin}, nil }

func (s *session) brokers() []string { return strings.Split(s.begin.Bootstrap, ",") }

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
	}
	if call, ok := producing[op]; ok {
		if s.producer == nil {
			return nil, errors.New("this session has no producer open")
		}
		return call(s.producer, line)
	}
	if call, ok := consuming[op]; ok {
		if s.consumer == nil {
			return nil, errors.New("this session has no consumer open")
		}
		return call(s.consumer, line)
	}
	call, ok := administering[op]
	if !ok {
		return nil, lines.Unsupported(op)
	}
	if s.admin == nil {
		if err := s.openAdmin(); err != nil {
			return nil, err
		}
	}
	return call(s.admin, line)
}

func (s *session) closeProducer() {
	if s.producer != nil {
		s.producer.close()
	}
	s.producer = nil
}

func (s *session) closeConsumer() {
	if s.consumer != nil {
		s.consumer.close()
	}
	s.consumer = nil
}

func (s *session) Close() {
	s.closeProducer()
	s.closeConsumer()
	if s.admin != nil {
		// It closes the client too; what it says in closing, nobody can act on.
		_ = s.admin.ClusterAdmin.Close()
	}
	s.admin = nil
}
