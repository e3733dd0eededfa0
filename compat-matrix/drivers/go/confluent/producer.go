package main

import (
	"errors"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"drivers/lines"
)

var producing = map[string]func(*kafka.Producer, lines.Line) (any, error){
	"produce":         produce,
	"produce_numbers": produce,
	"init_transactions": func(producer *kafka.Producer, _ lines.Line) (any, error) {
		ctx, cancel := bounded()
		defer cancel()
		return lines.Nothing, producer.InitTransactions(ctx)
	},
	"begin_transaction": func(producer *kafka.Producer, _ lines.Line) (any, error) {
		return lines.Nothing, producer.BeginTransaction()
	},
	"commit_transaction": func(producer *kafka.Producer, _ lines.Line) (any, error) {
		ctx, cancel := bounded()
		defer cancel()
		return lines.Nothing, producer.CommitTransaction(ctx)
	},
	"abort_transaction": func(producer *kafka.Producer, _ lines.Line) (any, error) {
		ctx, cancel := bounded()
		defer cancel()
		return lines.Nothing, producer.AbortTransaction(ctx)
	},
}

func (s *session) openProducer(line lines.Line) error {
	config, err := configure(s.begin, line)
	if err != nil {
		return err
	}
	s.producer, err = kafka.NewProducer(&config)
	if err == nil {
		go discard(s.producer.Events())
	}
	return err
}

// discard serves what is not a delivery report; nobody asked for it.
func discard(events <-chan kafka.Event) {
	for range events {
	}
}

func produce(producer *kafka.Producer, line lines.Line) (any, error) {
	op, err := lines.ReadProduce(line)
	if err != nil {
		return nil, err
	}
	deadline := time.After(time.Duration(op.TimeoutMs) * time.Millisecond)
	deliveries := lines.NewDeliveries(len(op.Records))
	reports := make(chan kafka.Event, len(op.Records))
	outstanding := 0
	for index, record := range op.Records {
		if err := enqueue(producer, message(record, index), reports); err != nil {
			deliveries.Failed(index, err.Error())
		} else {
			outstanding++
		}
	}
	for ; outstanding > 0; outstanding-- {
		select {
		case event := <-reports:
			report(deliveries, event.(*kafka.Message))
		case <-deadline:
			return deliveries.Answer(), nil
		}
	}
	return deliveries.Answer(), nil
}

// enqueue waits while the client's own queue is full.
func enqueue(producer *kafka.Producer, message *kafka.Message, reports chan kafka.Event) error {
	for tries := 0; ; tries++ {
		err := producer.Produce(message, reports)
		full, ok := err.(kafka.Error)
		if !ok || full.Code() != kafka.ErrQueueFull || tries == 1000 {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func message(record lines.Outgoing, index int) *kafka.Message {
	out := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &record.Topic, Partition: kafka.PartitionAny},
		Key:            record.Key,
		Value:          record.Value,
		Opaque:         index,
	}
	if record.Partition != nil {
		out.TopicPartition.Partition = *record.Partition
	}
	if record.TimestampMs != nil {
		out.Timestamp = time.UnixMilli(*record.TimestampMs)
	}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, kafka.Header{Key: header.Key, Value: header.Value})
	}
	return out
}

func report(deliveries *lines.Deliveries, message *kafka.Message) {
	index := message.Opaque.(int)
	if err := message.TopicPartition.Error; err != nil {
		deliveries.Failed(index, err.Error())
		return
	}
	// Without acknowledgements nobody knows the offset.
	offset := max(int64(message.TopicPartition.Offset), -1)
	deliveries.Delivered(index, message.TopicPartition.Partition, offset)
}

func (s *session) sendOffsets(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Offsets []lines.Place `json:"offsets"`
	}](line)
	if err != nil {
		return nil, err
	}
	if s.producer == nil || s.consumer == nil {
		return nil, errors.New("this needs a producer and a consumer")
	}
	metadata, err := s.consumer.client.GetConsumerGroupMetadata()
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded()
	defer cancel()
	return lines.Nothing, s.producer.SendOffsetsToTransaction(ctx, partitions(op.Offsets), metadata)
}
