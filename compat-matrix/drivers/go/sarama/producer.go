package main

import (
	"time"

	"github.com/IBM/sarama"

	"drivers/lines"
)

// producer is opened with `init_transactions` when it is transactional, because opening it is that.
type producer struct {
	brokers []string
	config  *sarama.Config
	client  sarama.AsyncProducer
}

// sent is the metadata of a message.
type sent struct {
	index int
	named bool
}

// partitioner obeys a message that names its partition and leaves the others to the client's own.
type partitioner struct{ sarama.Partitioner }

func newPartitioner(topic string) sarama.Partitioner {
	return partitioner{sarama.NewHashPartitioner(topic)}
}

func (p partitioner) Partition(message *sarama.ProducerMessage, count int32) (int32, error) {
	if message.Metadata.(sent).named {
		return message.Partition, nil
	}
	return p.Partitioner.Partition(message, count)
}

var producing = map[string]func(*producer, lines.Line) (any, error){
	"produce":           (*producer).produce,
	"produce_numbers":   (*producer).produce,
	"init_transactions": func(p *producer, _ lines.Line) (any, error) { return lines.Nothing, p.start() },
	"begin_transaction": func(p *producer, _ lines.Line) (any, error) { return lines.Nothing, p.client.BeginTxn() },
	"commit_transaction": func(p *producer, _ lines.Line) (any, error) {
		return lines.Nothing, p.client.CommitTxn()
	},
	"abort_transaction": func(p *producer, _ lines.Line) (any, error) {
		return lines.Nothing, p.client.AbortTxn()
	},
}

func (s *session) openProducer(line lines.Line) error {
	settings, err := lines.ReadSettings(line)
	if err != nil {
		return err
	}
	config, err := common(s.begin)
	if err != nil {
		return err
	}
	if err := configureProducer(config, settings); err != nil {
		return err
	}
	s.producer = &producer{brokers: s.brokers(), config: config}
	if settings.TransactionalID == nil {
		return s.producer.start()
	}
	return nil
}

func (p *producer) start() (err error) {
	p.client, err = sarama.NewAsyncProducer(p.brokers, p.config)
	return err
}

func (p *producer) produce(line lines.Line) (any, error) {
	op, err := lines.ReadProduce(line)
	if err != nil {
		return nil, err
	}
	deadline := time.After(time.Duration(op.TimeoutMs) * time.Millisecond)
	deliveries := lines.NewDeliveries(len(op.Records))
	acknowledged := p.config.Producer.RequiredAcks != sarama.NoResponse
	next, outstanding := 0, len(op.Records)
	for outstanding > 0 {
		var input chan<- *sarama.ProducerMessage
		var message *sarama.ProducerMessage
		if next < len(op.Records) {
			input, message = p.client.Input(), toMessage(op.Records[next], next)
		}
		select {
		case input <- message:
			next++
		case success := <-p.client.Successes():
			offset := success.Offset
			if !acknowledged {
				offset = -1
			}
			deliveries.Delivered(success.Metadata.(sent).index, success.Partition, offset)
			outstanding--
		case failure := <-p.client.Errors():
			deliveries.Failed(failure.Msg.Metadata.(sent).index, failure.Err.Error())
			outstanding--
		case <-deadline:
			return deliveries.Answer(), nil
		}
	}
	return deliveries.Answer(), nil
}

func toMessage(record lines.Outgoing, index int) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic:    record.Topic,
		Metadata: sent{index: index, named: record.Partition != nil},
	}
	// An encoder of absent bytes is not absent.
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		message.Value = sarama.ByteEncoder(record.Value)
	}
	if record.Partition != nil {
		message.Partition = *record.Partition
	}
	if record.TimestampMs != nil {
		message.Timestamp = time.UnixMilli(*record.TimestampMs)
	}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{
			Key: []byte(header.Key), Value: header.Value,
		})
	}
	return message
}

func (p *producer) close() {
	if p.client == nil {
		return
	}
	p.client.AsyncClose()
	// Both channels close when it is done; what is left in them belongs to nobody.
	late := time.After(5 * time.Second)
	successes, failures := p.client.Successes(), p.client.Errors()
	for successes != nil || failures != nil {
		select {
		case _, open := <-successes:
			if !open {
				successes = nil
			}
		case _, open := <-failures:
			if !open {
				failures = nil
			}
		case <-late:
			return
		}
	}
}
