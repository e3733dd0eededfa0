package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"drivers/lines"
)

// partitioner obeys a record that names its partition and leaves the others to the client's own.
type partitioner struct{ own kgo.Partitioner }

type topicPartitioner struct{ kgo.TopicPartitioner }

// named marks a record that names its partition.
type named struct{}

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.own.ForTopic(topic)}
}

func isNamed(record *kgo.Record) bool {
	return record.Context != nil && record.Context.Value(named{}) != nil
}

func (p topicPartitioner) RequiresConsistency(record *kgo.Record) bool {
	return isNamed(record) || p.TopicPartitioner.RequiresConsistency(record)
}

func (p topicPartitioner) Partition(record *kgo.Record, count int) int {
	if isNamed(record) {
		return int(record.Partition)
	}
	return p.TopicPartitioner.Partition(record, count)
}

var producing = map[string]func(*kgo.Client, lines.Line) (any, error){
	"produce":           produce,
	"produce_numbers":   produce,
	"init_transactions": initTransactions,
	"begin_transaction": func(producer *kgo.Client, _ lines.Line) (any, error) {
		return lines.Nothing, producer.BeginTransaction()
	},
	"commit_transaction": func(producer *kgo.Client, _ lines.Line) (any, error) {
		return end(producer, kgo.TryCommit)
	},
	"abort_transaction": func(producer *kgo.Client, _ lines.Line) (any, error) {
		return end(producer, kgo.TryAbort)
	},
}

func (s *session) openProducer(line lines.Line) error {
	settings, err := lines.ReadSettings(line)
	if err != nil {
		return err
	}
	opts, err := producerOpts(settings)
	if err != nil {
		return err
	}
	s.producer, err = kgo.NewClient(append(opts, s.common...)...)
	return err
}

func produce(producer *kgo.Client, line lines.Line) (any, error) {
	op, err := lines.ReadProduce(line)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(op.TimeoutMs)*time.Millisecond)
	defer cancel()
	deliveries := lines.NewDeliveries(len(op.Records))
	unanswered := make(chan struct{}, len(op.Records))
	acknowledged := producer.OptValue(kgo.RequiredAcks) != kgo.NoAck()
	for index, record := range op.Records {
		producer.Produce(ctx, outgoing(record), func(sent *kgo.Record, err error) {
			switch {
			case err != nil:
				deliveries.Failed(index, err.Error())
			case acknowledged:
				deliveries.Delivered(index, sent.Partition, sent.Offset)
			default:
				deliveries.Delivered(index, sent.Partition, -1)
			}
			unanswered <- struct{}{}
		})
	}
	for range op.Records {
		select {
		case <-unanswered:
		case <-ctx.Done():
			return deliveries.Answer(), nil
		}
	}
	return deliveries.Answer(), nil
}

func outgoing(record lines.Outgoing) *kgo.Record {
	out := &kgo.Record{Topic: record.Topic, Key: record.Key, Value: record.Value}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
	}
	if record.TimestampMs != nil {
		out.Timestamp = time.UnixMilli(*record.TimestampMs)
	}
	if record.Partition != nil {
		out.Partition = *record.Partition
		out.Context = context.WithValue(context.Background(), named{}, true)
	}
	return out
}

// initTransactions asks for the producer id, which the client else does with the first transaction.
func initTransactions(producer *kgo.Client, _ lines.Line) (any, error) {
	ctx, cancel := bounded()
	defer cancel()
	_, _, err := producer.ProducerID(ctx)
	return lines.Nothing, err
}

func end(producer *kgo.Client, commit kgo.TransactionEndTry) (any, error) {
	ctx, cancel := bounded()
	defer cancel()
	settle := producer.Flush
	if commit == kgo.TryAbort {
		settle = producer.AbortBufferedRecords
	}
	if err := settle(ctx); err != nil {
		return nil, err
	}
	return lines.Nothing, producer.EndTransaction(ctx, commit)
}
