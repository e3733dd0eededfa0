// The driver of confluent-kafka-go: librdkafka for Go.
package main

import (
	"errors"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"drivers/lines"
)

const callMs = 15_000

var client = lines.Client{
	Name:   "confluent-kafka-go",
	Module: "github.com/confluentinc/confluent-kafka-go/v2",
	Lacks: []string{
		"assignor.sticky",
		"delete_group_offsets",
		"describe_log_dirs",
	},
	Open: func(begin lines.Begin) (lines.Session, error) { return &session{begin: begin}, nil },
	Code: func(err error) (int16, bool) {
		var kafkaError kafka.Error
		// librdkafka's own codes are negative.
		if errors.As(err, &kafkaError) && kafkaError.Code() > 0 {
			return int16(kafkaError.Code()), true
		}
		return 0, false
	},
}

func main() { lines.Serve(client) }

type session struct {
	begin    lines.Begin
	producer *kafka.Producer
	consumer *consumer
	// admin is opened when an operation needs it.
	admin *kafka.AdminClient
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
	case "send_offsets":
		return s.sendOffsets(line)
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
	call, ok := administration[op]
	if !ok {
		return nil, lines.Unsupported(op)
	}
	if s.admin == nil {
		config, err := common(s.begin)
		if err != nil {
			return nil, err
		}
		if s.admin, err = kafka.NewAdminClient(&config); err != nil {
			return nil, err
		}
	}
	ctx, cancel := bounded()
	defer cancel()
	return call(ctx, s.admin, line)
}

func (s *session) closeProducer() {
	if s.producer != nil {
		s.producer.Flush(int((5 * time.Second).Milliseconds()))
		s.producer.Close()
	}
	s.producer = nil
}

func (s *session) closeConsumer() {
	if s.consumer != nil {
		// What it says in closing, nobody can act on.
		_ = s.consumer.client.Close()
	}
	s.consumer = nil
}

func (s *session) Close() {
	s.closeProducer()
	s.closeConsumer()
	if s.admin != nil {
		s.admin.Close()
	}
	s.admin = nil
}
