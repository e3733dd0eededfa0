package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/segmentio/kafka-go"

	"drivers/lines"
)

const dynamicTopicConfig = 1

var administration = map[string]func(context.Context, *kafka.Client, lines.Line) (any, error){
	"metadata":              metadata,
	"create_topics":         createTopics,
	"delete_topics":         deleteTopics,
	"create_partitions":     createPartitions,
	"describe_topic_config": describeConfig,
	"alter_topic_config":    alterConfig,
	"change_topic_config":   changeConfig,
	"groups":                groups,
	"delete_groups":         deleteGroups,
	"group_offsets":         groupOffsets,
	"delete_group_offsets":  deleteGroupOffsets,
	"describe_cluster":      describeCluster,
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
}

func brokers(found []kafka.Broker) map[string]string {
	named := map[string]string{}
	for _, each := range found {
		named[strconv.Itoa(each.ID)] = fmt.Sprintf("%s:%d", each.Host, each.Port)
	}
	return named
}

func outcomes(failures map[string]error) any {
	all := lines.Outcomes{}
	for name, err := range failures {
		all.Put(client, name, err)
	}
	return all.Answer()
}

func metadata(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	var asked []string
	if op.Topic != "" {
		asked = []string{op.Topic}
	}
	found, err := admin.Metadata(ctx, &kafka.MetadataRequest{Topics: asked})
	if err != nil {
		return nil, err
	}
	topics, failed := map[string]int{}, lines.Outcomes{}
	for _, topic := range found.Topics {
		topics[topic.Name] = len(topic.Partitions)
		if topic.Error != nil {
			failed.Put(client, topic.Name, topic.Error)
		}
	}
	return map[string]any{"topics": topics, "errors": failed, "brokers": brokers(found.Brokers)}, nil
}

func createTopics(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics       []lines.NewTopic `json:"topics"`
		ValidateOnly bool             `json:"validate_only"`
	}](line)
	if err != nil {
		return nil, err
	}
	request := &kafka.CreateTopicsRequest{ValidateOnly: op.ValidateOnly}
	for _, topic := range op.Topics {
		config := kafka.TopicConfig{
			Topic: topic.Name, NumPartitions: int(topic.Partitions), ReplicationFactor: 1,
		}
		for name, value := range topic.Config {
			config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{
				ConfigName: name, ConfigValue: value,
			})
		}
		request.Topics = append(request.Topics, config)
	}
	done, err := admin.CreateTopics(ctx, request)
	if err != nil {
		return nil, err
	}
	return outcomes(done.Errors), nil
}

func deleteTopics(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: op.Topics})
	if err != nil {
		return nil, err
	}
	return outcomes(done.Errors), nil
}

func createPartitions(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	wanted := kafka.TopicPartitionsConfig{Name: op.Topic, Count: op.Count}
	done, err := admin.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{wanted},
	})
	if err != nil {
		return nil, err
	}
	return outcomes(done.Errors), nil
}

func describeConfig(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := admin.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: op.Topic},
		},
	})
	if err != nil {
		return nil, err
	}
	entries, dynamic := map[string]string{}, []string{}
	for _, resource := range found.Resources {
		if resource.Error != nil {
			return nil, resource.Error
		}
		for _, entry := range resource.ConfigEntries {
			entries[entry.ConfigName] = entry.ConfigValue
			if entry.ConfigSource == dynamicTopicConfig {
				dynamic = append(dynamic, entry.ConfigName)
			}
		}
	}
	slices.Sort(dynamic)
	return map[string]any{"entries": entries, "dynamic": dynamic}, nil
}

func alterConfig(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	resource := kafka.AlterConfigRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: op.Topic,
	}
	for name, value := range op.Config {
		resource.Configs = append(resource.Configs, kafka.AlterConfigRequestConfig{Name: name, Value: value})
	}
	done, err := admin.AlterConfigs(ctx, &kafka.AlterConfigsRequest{
		Resources: []kafka.AlterConfigRequestResource{resource},
	})
	if err != nil {
		return nil, err
	}
	failures := map[string]error{}
	for at, err := range done.Errors {
		failures[at.Name] = err
	}
	return outcomes(failures), nil
}

func changeConfig(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	resource := kafka.IncrementalAlterConfigsRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: op.Topic,
	}
	for name, value := range op.Set {
		resource.Configs = append(resource.Configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
		})
	}
	for _, name := range op.Delete {
		resource.Configs = append(resource.Configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, ConfigOperation: kafka.ConfigOperationDelete,
		})
	}
	done, err := admin.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
	})
	if err != nil {
		return nil, err
	}
	failures := map[string]error{}
	for _, each := range done.Resources {
		failures[each.ResourceName] = each.Error
	}
	return outcomes(failures), nil
}

func groups(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	var found []lines.Group
	if op.Group == "" {
		listed, err := admin.ListGroups(ctx, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, err
		}
		for _, each := range listed.Groups {
			found = append(found, lines.Group{ID: each.GroupID, ClientIDs: []string{}})
		}
		return lines.GroupsAnswer(found), listed.Error
	}
	described, err := admin.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{op.Group}})
	if err != nil {
		return nil, err
	}
	for _, each := range described.Groups {
		if each.Error != nil {
			return nil, each.Error
		}
		// The client keeps the assignor for itself.
		one := lines.Group{ID: each.GroupID, State: each.GroupState, ClientIDs: []string{}}
		for _, member := range each.Members {
			one.ClientIDs = append(one.ClientIDs, member.ClientID)
		}
		found = append(found, one)
	}
	return lines.GroupsAnswer(found), nil
}

func deleteGroups(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: op.Groups})
	if err != nil {
		return nil, err
	}
	return outcomes(done.Errors), nil
}

// fetchOffsets answers what is committed at these places, or everywhere when there are none.
func fetchOffsets(
	ctx context.Context, admin *kafka.Client, group string, at []lines.Place,
) (any, error) {
	var topics map[string][]int
	for _, place := range at {
		if topics == nil {
			topics = map[string][]int{}
		}
		topics[place.Topic] = append(topics[place.Topic], int(place.Partition))
	}
	found, err := admin.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: topics})
	if err != nil {
		return nil, err
	}
	if found.Error != nil {
		return nil, found.Error
	}
	var places []lines.Place
	for topic, partitions := range found.Topics {
		for _, each := range partitions {
			if each.Error != nil {
				return nil, each.Error
			}
			places = append(places, lines.Place{
				Topic: topic, Partition: int32(each.Partition), Offset: each.CommittedOffset,
				Metadata: each.Metadata,
			})
		}
	}
	return lines.Sorted(places), nil
}

func groupOffsets(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	return fetchOffsets(ctx, admin, op.Group, nil)
}

func deleteGroupOffsets(ctx context.Context, admin *kafka.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	topics := map[string][]int{}
	for _, place := range places {
		topics[place.Topic] = append(topics[place.Topic], int(place.Partition))
	}
	done, err := admin.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: op.Group, Topics: topics})
	if err != nil {
		return nil, err
	}
	for _, partitions := range done.Topics {
		for _, each := range partitions {
			if each.Error != nil {
				return nil, each.Error
			}
		}
	}
	return lines.Nothing, done.Error
}

func describeCluster(ctx context.Context, admin *kafka.Client, _ lines.Line) (any, error) {
	found, err := admin.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"id": found.ClusterID, "controller": found.Controller.ID, "brokers": brokers(found.Brokers),
	}, nil
}
