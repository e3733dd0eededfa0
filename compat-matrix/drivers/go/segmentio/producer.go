package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"

	"drivers/lines"
)

type producer struct {
	writer       *kafka.Writer
	acknowledged bool
	// reports is where the writer's callback notes what became of messages.
	reports *lines.Deliveries
}

// sent is what a message carries for the balancer and the report.
type sent struct {
	index     int
	partition *int32
}

// balancer obeys a message that names its partition and leaves the others to another.
type balancer struct{ others kafka.Balancer }

func (b balancer) Balance(message kafka.Message, partitions ...int) int {
	if to := message.WriterData.(sent).partition; to != nil {
		return int(*to)
	}
	return b.others.Balance(message, partitions...)
}

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func (s *session) openProducer(line lines.Line) error {
	settings, err := lines.ReadSettings(line)
	if err != nil {
		return err
	}
	writer := &kafka.Writer{
		Addr:         kafka.TCP(s.addresses...),
		Transport:    s.transport,
		Balancer:     balancer{&kafka.RoundRobin{}},
		RequiredAcks: kafka.RequireAll,
		// A record at a time would wait a second for company.
		BatchTimeout: 5 * time.Millisecond,
		// Producers of other clients let the broker create a topic unless they are told not to.
		AllowAutoTopicCreation: true,
	}
	one := &producer{writer: writer, acknowledged: true}
	if word := settings.Acks; word != nil {
		switch *word {
		case "0":
			writer.RequiredAcks, one.acknowledged = kafka.RequireNone, false
		case "1":
			writer.RequiredAcks = kafka.RequireOne
		}
	}
	if settings.Partitioner != nil {
		writer.Balancer = balancer{kafka.Murmur2Balancer{}}
	}
	if word := settings.Compression; word != nil {
		writer.Compression = codecs[*word]
	}
	if bytes := settings.MaxRequestBytes; bytes != nil {
		writer.BatchBytes = int64(*bytes)
	} else if bytes := settings.BatchBytes; bytes != nil {
		writer.BatchBytes = int64(*bytes)
	}
	if count := settings.BatchRecords; count != nil {
		writer.BatchSize = *count
	}
	if ms := settings.LingerMs; ms != nil {
		writer.BatchTimeout = max(time.Millisecond, lines.Ms(*ms))
	}
	if ms := settings.RequestTimeoutMs; ms != nil {
		writer.ReadTimeout, writer.WriteTimeout = lines.Ms(*ms), lines.Ms(*ms)
	}
	if ms := settings.RetryBackoffMs; ms != nil {
		writer.WriteBackoffMin, writer.WriteBackoffMax = lines.Ms(*ms), lines.Ms(*ms)
	}
	writer.Completion = one.complete
	s.producer = one
	return nil
}

// complete is called for each batch, before WriteMessages returns.
func (p *producer) complete(messages []kafka.Message, err error) {
	for _, message := range messages {
		index := message.WriterData.(sent).index
		switch {
		case err != nil:
			p.reports.Failed(index, err.Error())
		case p.acknowledged:
			p.reports.Delivered(index, int32(message.Partition), message.Offset)
		case message.WriterData.(sent).partition != nil:
			p.reports.Delivered(index, *message.WriterData.(sent).partition, -1)
		default:
			// Without an answer the client does not note where it sent a message.
			p.reports.Delivered(index, -1, -1)
		}
	}
}

func (p *producer) produce(line lines.Line) (any, error) {
	op, err := lines.ReadProduce(line)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(op.TimeoutMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	p.reports = lines.NewDeliveries(len(op.Records))
	messages := make([]kafka.Message, len(op.Records))
	for index, record := range op.Records {
		messages[index] = message(record, index)
	}
	if err := p.writer.WriteMessages(ctx, messages...); err != nil {
		// Messages that never got into a batch are told here alone.
		for index := range messages {
			p.reports.Failed(index, err.Error())
		}
	}
	return p.reports.Answer(), nil
}

func message(record lines.Outgoing, index int) kafka.Message {
	out := kafka.Message{
		Topic: record.Topic, Key: record.Key, Value: record.Value,
		WriterData: sent{index, record.Partition},
	}
	if record.TimestampMs != nil {
		out.Time = time.UnixMilli(*record.TimestampMs)
	}
	for _, header := range record.Headers {
		out.Headers = append(out.Headers, kafka.Header{Key: header.Key, Value: header.Value})
	}
	return out
}
