package main

import (
	"slices"
	"strconv"

	"github.com/IBM/sarama"

	"drivers/lines"
)

type administration struct {
	sarama.ClusterAdmin
}

var administering = map[string]func(*administration, lines.Line) (any, error){
	"metadata":              (*administration).metadata,
	"create_topics":         (*administration).createTopics,
	"delete_topics":         (*administration).deleteTopics,
	"create_partitions":     (*administration).createPartitions,
	"describe_topic_config": (*administration).describeConfig,
	"alter_topic_config":    (*administration).alterConfig,
	"change_topic_config":   (*administration).changeConfig,
	"groups":                (*administration).groups,
	"delete_groups":         (*administration).deleteGroups,
	"group_offsets":         (*administration).groupOffsets,
	"delete_group_offsets":  (*administration).deleteGroupOffsets,
	"describe_log_dirs":     (*administration).logDirs,
}

type names struct {
	Topic  string            `json:"topic"`
	Topics []string          `json:"topics"`
	Count  int32             `json:"count"`
	Config map[string]string `json:"config"`
	Set    map[string]string `json:"set"`
	Delete []string          `json:"delete"`
	Groups []string          `json:"groups"`
	Group  string            `json:"group"`
	Node   int32             `json:"node"`
}

func (s *session) openAdmin() error {
	config, err := common(s.begin)
	if err != nil {
		return err
	}
	// Asking for a topic must not create it.
	config.Metadata.AllowAutoTopicCreation = false
	admin, err := sarama.NewClusterAdmin(s.brokers(), config)
	if err == nil {
		s.admin = &administration{admin}
	}
	return err
}

func (a *administration) metadata(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	nodes, _, err := a.DescribeCluster()
	if err != nil {
		return nil, err
	}
	brokers := map[string]string{}
	for _, node := range nodes {
		brokers[strconv.Itoa(int(node.ID()))] = node.Addr()
	}
	var asked []string
	if op.Topic != "" {
		asked = []string{op.Topic}
	}
	found, err := a.DescribeTopics(asked)
	if err != nil {
		return nil, err
	}
	topics, failed := map[string]int{}, lines.Outcomes{}
	for _, topic := range found {
		topics[topic.Name] = len(topic.Partitions)
		if topic.Err != sarama.ErrNoError {
			failed.Put(client, topic.Name, topic.Err)
		}
	}
	return map[string]any{"topics": topics, "errors": failed, "brokers": brokers}, nil
}

func (a *administration) createTopics(line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics       []lines.NewTopic `json:"topics"`
		ValidateOnly bool             `json:"validate_only"`
	}](line)
	if err != nil {
		return nil, err
	}
	outcomes := lines.Outcomes{}
	for _, topic := range op.Topics {
		detail := &sarama.TopicDetail{
			NumPartitions: topic.Partitions, ReplicationFactor: 1, ConfigEntries: values(topic.Config),
		}
		outcomes.Put(client, topic.Name, a.CreateTopic(topic.Name, detail, op.ValidateOnly))
	}
	return outcomes.Answer(), nil
}

func values(config map[string]string) map[string]*string {
	found := map[string]*string{}
	for name, value := range config {
		found[name] = &value
	}
	return found
}

func (a *administration) deleteTopics(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	outcomes := lines.Outcomes{}
	for _, name := range op.Topics {
		outcomes.Put(client, name, a.DeleteTopic(name))
	}
	return outcomes.Answer(), err
}

func (a *administration) createPartitions(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	outcomes := lines.Outcomes{}
	outcomes.Put(client, op.Topic, a.CreatePartitions(op.Topic, op.Count, nil, false))
	return outcomes.Answer(), nil
}

func (a *administration) describeConfig(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: op.Topic})
	if err != nil {
		return nil, err
	}
	entries, dynamic := map[string]string{}, []string{}
	for _, entry := range found {
		entries[entry.Name] = entry.Value
		if entry.Source == sarama.SourceTopic {
			dynamic = append(dynamic, entry.Name)
		}
	}
	slices.Sort(dynamic)
	return map[string]any{"entries": entries, "dynamic": dynamic}, nil
}

func (a *administration) alterConfig(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	outcomes := lines.Outcomes{}
	done := a.AlterConfig(sarama.TopicResource, op.Topic, values(op.Config), false)
	outcomes.Put(client, op.Topic, done)
	return outcomes.Answer(), nil
}

func (a *administration) changeConfig(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range op.Set {
		entries[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
		}
	}
	for _, name := range op.Delete {
		entries[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationDelete,
		}
	}
	outcomes := lines.Outcomes{}
	done := a.IncrementalAlterConfig(sarama.TopicResource, op.Topic, entries, false)
	outcomes.Put(client, op.Topic, done)
	return outcomes.Answer(), nil
}

func (a *administration) groups(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	var found []lines.Group
	if op.Group == "" {
		listed, err := a.ListConsumerGroups()
		for id := range listed {
			found = append(found, lines.Group{ID: id, ClientIDs: []string{}})
		}
		return lines.GroupsAnswer(found), err
	}
	described, err := a.DescribeConsumerGroups([]string{op.Group})
	for _, group := range described {
		if group.Err != sarama.ErrNoError {
			return nil, group.Err
		}
		one := lines.Group{ID: group.GroupId, State: group.State, Protocol: group.Protocol, ClientIDs: []string{}}
		for _, member := range group.Members {
			one.ClientIDs = append(one.ClientIDs, member.ClientId)
		}
		found = append(found, one)
	}
	return lines.GroupsAnswer(found), err
}

func (a *administration) deleteGroups(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	outcomes := lines.Outcomes{}
	for _, name := range op.Groups {
		outcomes.Put(client, name, a.DeleteConsumerGroup(name))
	}
	return outcomes.Answer(), err
}

func (a *administration) groupOffsets(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := a.ListConsumerGroupOffsets(op.Group, nil)
	if err != nil {
		return nil, err
	}
	var places []lines.Place
	for topic, partitions := range found.Blocks {
		for partition, at := range partitions {
			if at.Err != sarama.ErrNoError {
				return nil, at.Err
			}
			places = append(places, lines.Place{
				Topic: topic, Partition: partition, Offset: at.Offset, Metadata: at.Metadata,
			})
		}
	}
	return lines.Sorted(places), nil
}

func (a *administration) deleteGroupOffsets(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		if err := a.DeleteConsumerGroupOffset(op.Group, place.Topic, place.Partition); err != nil {
			return nil, err
		}
	}
	return lines.Nothing, nil
}

func (a *administration) logDirs(line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := a.DescribeLogDirs([]int32{op.Node})
	if err != nil {
		return nil, err
	}
	sizes := map[spot]int64{}
	for _, folder := range found[op.Node] {
		for _, topic := range folder.Topics {
			for _, partition := range topic.Partitions {
				sizes[spot{topic.Topic, partition.PartitionID}] += partition.Size
			}
		}
	}
	var places []lines.Place
	for at, size := range sizes {
		places = append(places, lines.Place{Topic: at.topic, Partition: at.partition, Offset: size})
	}
	return lines.Sorted(places), nil
}
