// The driver of franz-go: kgo for records, kadm for administration.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"drivers/lines"
)

const callTime = 15 * time.Second

var client = lines.Client{
	Name:   "franz-go",
	Module: "github.com/twmb/franz-go",
	Lacks: []string{
		"setting.batch_records",
		"setting.reconnect_backoff_ms",
		"setting.reconnect_backoff_max_ms",
		"setting.topic_propagation_ms",
		// Offsets go into a transaction through a GroupTransactSession, which is producer and consumer in one.
		"send_offsets",
	},
	Open: open,
	Code: func(err error) (int16, bool) {
		var kafka *kerr.Error
		if errors.As(err, &kafka) {
			return kafka.Code, true
		}
		return 0, false
	},
}

func main() { lines.Serve(client) }

type session struct {
	common   []kgo.Opt
	producer *kgo.Client
	consumer *consumer
	// admin is opened when an operation needs it.
	admin *kadm.Client
}

func open(begin lines.Begin) (lines.Session, error) {
	common, err := common(begin)
	return &session{common: common}, err
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
		plain, err := kgo.NewClient(s.common...)
		if err != nil {
			return nil, err
		}
		s.admin = kadm.NewClient(plain)
	}
	ctx, cancel := bounded()
	defer cancel()
	return call(ctx, s.admin, line)
}

func (s *session) closeProducer() {
	if s.producer != nil {
		s.producer.Close()
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
		s.admin.Close()
	}
	s.admin = nil
}
