package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"drivers/lines"
)

var administration = map[string]func(context.Context, *kafka.AdminClient, lines.Line) (any, error){
	"metadata":              metadata,
	"create_topics":         createTopics,
	"delete_topics":         deleteTopics,
	"create_partitions":     createPartitions,
	"delete_records":        deleteRecords,
	"list_offsets":          listOffsets,
	"describe_topic_config": describeConfig,
	"alter_topic_config":    alterConfig,
	"change_topic_config":   changeConfig,
	"groups":                groups,
	"delete_groups":         deleteGroups,
	"group_offsets":         groupOffsets,
	"alter_group_offsets":   alterGroupOffsets,
	"describe_cluster":      describeCluster,
}

var states = map[kafka.ConsumerGroupState]string{
	kafka.ConsumerGroupStatePreparingRebalance:  "PreparingRebalance",
	kafka.ConsumerGroupStateCompletingRebalance: "CompletingRebalance",
	kafka.ConsumerGroupStateStable:              "Stable",
	kafka.ConsumerGroupStateDead:                "Dead",
	kafka.ConsumerGroupStateEmpty:               "Empty",
}

type names struct {
	Topic   string            `json:"topic"`
	Topics  []string          `json:"topics"`
	Count   int               `json:"count"`
	Config  map[string]string `json:"config"`
	Set     map[string]string `json:"set"`
	Delete  []string          `json:"delete"`
	Groups  []string          `json:"groups"`
	Group   string            `json:"group"`
	Offsets []lines.Place     `json:"offsets"`
}

// failure is the error of a code; librdkafka has one for success too.
func failure(err kafka.Error) error {
	if err.Code() == kafka.ErrNoError {
		return nil
	}
	return err
}

func topicOutcomes(done []kafka.TopicResult, err error) (any, error) {
	outcomes := lines.Outcomes{}
	for _, each := range done {
		outcomes.Put(client, each.Topic, failure(each.Error))
	}
	return outcomes.Answer(), err
}

func metadata(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	all, err := admin.GetMetadata(nil, true, callMs)
	if err != nil {
		return nil, err
	}
	brokers := map[string]string{}
	for _, each := range all.Brokers {
		brokers[strconv.Itoa(int(each.ID))] = fmt.Sprintf("%s:%d", each.Host, each.Port)
	}
	topics, failed := map[string]int{}, lines.Outcomes{}
	if op.Topic == "" {
		for name, topic := range all.Topics {
			topics[name] = len(topic.Partitions)
		}
	} else {
		// Asking for one topic by Metadata alone would create it.
		asked := kafka.NewTopicCollectionOfTopicNames([]string{op.Topic})
		found, err := admin.DescribeTopics(ctx, asked)
		if err != nil {
			return nil, err
		}
		for _, topic := range found.TopicDescriptions {
			topics[topic.Name] = len(topic.Partitions)
			if err := failure(topic.Error); err != nil {
				failed.Put(client, topic.Name, err)
			}
		}
	}
	return map[string]any{"topics": topics, "errors": failed, "brokers": brokers}, nil
}

func createTopics(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics       []lines.NewTopic `json:"topics"`
		ValidateOnly bool             `json:"validate_only"`
	}](line)
	if err != nil {
		return nil, err
	}
	var wanted []kafka.TopicSpecification
	for _, topic := range op.Topics {
		wanted = append(wanted, kafka.TopicSpecification{
			Topic: topic.Name, NumPartitions: int(topic.Partitions), ReplicationFactor: 1,
			Config: topic.Config,
		})
	}
	return topicOutcomes(admin.CreateTopics(ctx, wanted, kafka.SetAdminValidateOnly(op.ValidateOnly)))
}

func deleteTopics(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	return topicOutcomes(admin.DeleteTopics(ctx, op.Topics))
}

func createPartitions(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	wanted := []kafka.PartitionsSpecification{{Topic: op.Topic, IncreaseTo: op.Count}}
	return topicOutcomes(admin.CreatePartitions(ctx, wanted))
}

func deleteRecords(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	wanted, err := readPartitions(line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteRecords(ctx, wanted)
	var places []lines.Place
	for _, each := range done.DeleteRecordsResults {
		if each.TopicPartition.Error != nil {
			return nil, each.TopicPartition.Error
		}
		place := lines.Place{Topic: *each.TopicPartition.Topic, Partition: each.TopicPartition.Partition}
		if each.DeletedRecords != nil {
			place.Offset = int64(each.DeletedRecords.LowWatermark)
		}
		places = append(places, place)
	}
	return lines.Sorted(places), err
}

func listOffsets(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	asked, err := readPartitions(line)
	if err != nil {
		return nil, err
	}
	wanted := map[kafka.TopicPartition]kafka.OffsetSpec{}
	for _, each := range asked {
		spec := kafka.NewOffsetSpecForTimestamp(int64(each.Offset))
		switch each.Offset {
		case -1:
			spec = kafka.LatestOffsetSpec
		case -2:
			spec = kafka.EarliestOffsetSpec
		case -3:
			spec = kafka.MaxTimestampOffsetSpec
		}
		wanted[kafka.TopicPartition{Topic: each.Topic, Partition: each.Partition}] = spec
	}
	found, err := admin.ListOffsets(ctx, wanted)
	var places []lines.Place
	for at, info := range found.ResultInfos {
		if err := failure(info.Error); err != nil {
			return nil, err
		}
		places = append(places, lines.Place{
			Topic: *at.Topic, Partition: at.Partition, Offset: int64(info.Offset),
		})
	}
	return lines.Sorted(places), err
}

func resource(topic string) kafka.ConfigResource {
	return kafka.ConfigResource{Type: kafka.ResourceTopic, Name: topic}
}

func describeConfig(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := admin.DescribeConfigs(ctx, []kafka.ConfigResource{resource(op.Topic)})
	if err != nil {
		return nil, err
	}
	if err := failure(found[0].Error); err != nil {
		return nil, err
	}
	entries, dynamic := map[string]string{}, []string{}
	for name, entry := range found[0].Config {
		entries[name] = entry.Value
		if entry.Source == kafka.ConfigSourceDynamicTopic {
			dynamic = append(dynamic, name)
		}
	}
	slices.Sort(dynamic)
	return map[string]any{"entries": entries, "dynamic": dynamic}, nil
}

func configOutcomes(done []kafka.ConfigResourceResult, err error) (any, error) {
	outcomes := lines.Outcomes{}
	for _, each := range done {
		outcomes.Put(client, each.Name, failure(each.Error))
	}
	return outcomes.Answer(), err
}

func alterConfig(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	wanted := resource(op.Topic)
	wanted.Config = kafka.StringMapToConfigEntries(op.Config, kafka.AlterOperationSet)
	return configOutcomes(admin.AlterConfigs(ctx, []kafka.ConfigResource{wanted}))
}

func changeConfig(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	wanted := resource(op.Topic)
	wanted.Config = kafka.StringMapToIncrementalConfigEntries(op.Set, set(op.Set))
	for _, name := range op.Delete {
		wanted.Config = append(wanted.Config, kafka.ConfigEntry{
			Name: name, IncrementalOperation: kafka.AlterConfigOpTypeDelete,
		})
	}
	return configOutcomes(admin.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{wanted}))
}

func set(names map[string]string) map[string]kafka.AlterConfigOpType {
	all := map[string]kafka.AlterConfigOpType{}
	for name := range names {
		all[name] = kafka.AlterConfigOpTypeSet
	}
	return all
}

func groups(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	var found []lines.Group
	if op.Group == "" {
		listed, err := admin.ListConsumerGroups(ctx)
		for _, each := range listed.Valid {
			found = append(found, lines.Group{
				ID: each.GroupID, State: states[each.State], ClientIDs: []string{},
			})
		}
		return lines.GroupsAnswer(found), err
	}
	described, err := admin.DescribeConsumerGroups(ctx, []string{op.Group})
	for _, each := range described.ConsumerGroupDescriptions {
		if err := failure(each.Error); err != nil {
			return nil, err
		}
		one := lines.Group{
			ID: each.GroupID, State: states[each.State], Protocol: each.PartitionAssignor,
			ClientIDs: []string{},
		}
		for _, member := range each.Members {
			one.ClientIDs = append(one.ClientIDs, member.ClientID)
		}
		found = append(found, one)
	}
	return lines.GroupsAnswer(found), err
}

func deleteGroups(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteConsumerGroups(ctx, op.Groups)
	outcomes := lines.Outcomes{}
	for _, each := range done.ConsumerGroupResults {
		outcomes.Put(client, each.Group, failure(each.Error))
	}
	return outcomes.Answer(), err
}

func groupOffsets(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	wanted := []kafka.ConsumerGroupTopicPartitions{{Group: op.Group}}
	found, err := admin.ListConsumerGroupOffsets(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return answered(found.ConsumerGroupsTopicPartitions[0].Partitions, nil)
}

func alterGroupOffsets(ctx context.Context, admin *kafka.AdminClient, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	wanted := []kafka.ConsumerGroupTopicPartitions{{Group: op.Group, Partitions: partitions(op.Offsets)}}
	done, err := admin.AlterConsumerGroupOffsets(ctx, wanted)
	if err != nil {
		return nil, err
	}
	_, err = answered(done.ConsumerGroupsTopicPartitions[0].Partitions, nil)
	return lines.Nothing, err
}

func describeCluster(ctx context.Context, admin *kafka.AdminClient, _ lines.Line) (any, error) {
	found, err := admin.DescribeCluster(ctx)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"controller": -1}
	if found.ClusterID != nil {
		answer["id"] = *found.ClusterID
	}
	if found.Controller != nil {
		answer["controller"] = found.Controller.ID
	}
	brokers := map[string]string{}
	for _, each := range found.Nodes {
		brokers[strconv.Itoa(each.ID)] = fmt.Sprintf("%s:%d", each.Host, each.Port)
	}
	answer["brokers"] = brokers
	return answer, nil
}
