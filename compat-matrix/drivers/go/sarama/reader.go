package main

import (
	"errors"

	"github.com/IBM/sarama"

	"drivers/lines"
)

// reader reads one partition outside of any group.
type reader struct {
	partition sarama.PartitionConsumer
	done      chan struct{}
}

func (c *consumer) assign(line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	c.stop()
	// One for all partitions: each has its own fetch requests, and they wait for one another. A new
	// one for each assignment, as the readers before may still be closing.
	if c.reading, err = sarama.NewConsumerFromClient(c.client); err != nil {
		return nil, err
	}
	for _, place := range places {
		if err := c.read(place); err != nil {
			return nil, err
		}
	}
	return lines.Nothing, nil
}

// read starts at a place; −2 and −1 are the client's own words for the beginning and the end.
func (c *consumer) read(place lines.Place) error {
	partition, err := c.reading.ConsumePartition(place.Topic, place.Partition, place.Offset)
	if err != nil {
		return err
	}
	one := &reader{partition: partition, done: make(chan struct{})}
	at := spot{place.Topic, place.Partition}
	c.readers[at] = one
	c.mutex.Lock()
	c.positions[at] = max(place.Offset, -1)
	c.mutex.Unlock()
	go func() {
		for message := range partition.Messages() {
			if !c.deliver(offered{message: message}, one.done) {
				return
			}
		}
	}()
	go func() {
		for failure := range partition.Errors() {
			c.events.Note(lines.Event{Event: "error", Message: failure.Error()})
		}
	}()
	return nil
}

func (r *reader) close() {
	close(r.done)
	r.partition.AsyncClose()
}

func (c *consumer) seek(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Partition lines.Place `json:"partition"`
	}](line)
	if err != nil {
		return nil, err
	}
	if c.group != nil {
		return nil, lines.Unsupported("a member of a group cannot seek")
	}
	at := spot{op.Partition.Topic, op.Partition.Partition}
	old, held := c.readers[at]
	if !held {
		return nil, errors.New("the partition is not assigned")
	}
	old.close()
	// The client reads a partition once at a time.
	for range old.partition.Messages() {
	}
	return lines.Nothing, c.read(op.Partition)
}
