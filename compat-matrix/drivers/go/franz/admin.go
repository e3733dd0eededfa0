package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"drivers/lines"
)

const maxTimestamp = -3

var administration = map[string]func(context.Context, *kadm.Client, lines.Line) (any, error){
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
	"delete_group_offsets":  deleteGroupOffsets,
	"describe_cluster":      describeCluster,
	"describe_log_dirs":     describeLogDirs,
}

// kafkaError is the error of a code that the client leaves as a number.
func kafkaError(code int16) error { return kerr.ErrorForCode(code) }

type names struct {
	Topic   string            `json:"topic"`
	Topics  []string          `json:"topics"`
	Count   int               `json:"count"`
	Config  map[string]string `json:"config"`
	Set     map[string]string `json:"set"`
	Delete  []string          `json:"delete"`
	Groups  []string          `json:"groups"`
	Group   string            `json:"group"`
	Node    int32             `json:"node"`
	Offsets []lines.Place     `json:"offsets"`
}

func brokers(found kadm.BrokerDetails) map[string]string {
	named := map[string]string{}
	for _, broker := range found {
		named[strconv.Itoa(int(broker.NodeID))] = broker.Host + ":" + strconv.Itoa(int(broker.Port))
	}
	return named
}

func metadata(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	var asked []string
	if op.Topic != "" {
		asked = []string{op.Topic}
	}
	found, err := admin.Metadata(ctx, asked...)
	if err != nil {
		return nil, err
	}
	topics, failed := map[string]int{}, lines.Outcomes{}
	for name, topic := range found.Topics {
		topics[name] = len(topic.Partitions)
		if topic.Err != nil {
			failed.Put(client, name, topic.Err)
		}
	}
	return map[string]any{"topics": topics, "errors": failed, "brokers": brokers(found.Brokers)}, nil
}

func createTopics(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[struct {
		Topics       []lines.NewTopic `json:"topics"`
		ValidateOnly bool             `json:"validate_only"`
	}](line)
	if err != nil {
		return nil, err
	}
	create := admin.CreateTopics
	if op.ValidateOnly {
		create = admin.ValidateCreateTopics
	}
	// The client creates topics of one width and configuration at once.
	alike := map[string][]lines.NewTopic{}
	for _, topic := range op.Topics {
		kind := fmt.Sprint(topic.Partitions, topic.Config)
		alike[kind] = append(alike[kind], topic)
	}
	outcomes := lines.Outcomes{}
	for _, topics := range alike {
		config := map[string]*string{}
		for name, value := range topics[0].Config {
			config[name] = &value
		}
		var wanted []string
		for _, topic := range topics {
			wanted = append(wanted, topic.Name)
		}
		done, err := create(ctx, topics[0].Partitions, 1, config, wanted...)
		if err != nil {
			return nil, err
		}
		for name, each := range done {
			outcomes.Put(client, name, each.Err)
		}
	}
	return outcomes.Answer(), nil
}

func deleteTopics(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteTopics(ctx, op.Topics...)
	outcomes := lines.Outcomes{}
	for name, each := range done {
		outcomes.Put(client, name, each.Err)
	}
	return outcomes.Answer(), err
}

func createPartitions(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	done, err := admin.UpdatePartitions(ctx, op.Count, op.Topic)
	outcomes := lines.Outcomes{}
	for name, each := range done {
		outcomes.Put(client, name, each.Err)
	}
	return outcomes.Answer(), err
}

func adminOffsets(places []lines.Place) kadm.Offsets {
	offsets := kadm.Offsets{}
	for _, place := range places {
		offsets.Add(kadm.Offset{
			Topic: place.Topic, Partition: place.Partition, At: place.Offset,
			LeaderEpoch: -1, Metadata: place.Metadata,
		})
	}
	return offsets
}

func deleteRecords(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	wanted, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteRecords(ctx, adminOffsets(wanted))
	if err != nil {
		return nil, err
	}
	var places []lines.Place
	done.Each(func(each kadm.DeleteRecordsResponse) {
		err = errors.Join(err, each.Err)
		places = append(places, lines.Place{
			Topic: each.Topic, Partition: each.Partition, Offset: each.LowWatermark,
		})
	})
	return lines.Sorted(places), err
}

// offsetAt resolves −2, −1, −3 or a time.
func offsetAt(ctx context.Context, admin *kadm.Client, place lines.Place) (int64, error) {
	var listed kadm.ListedOffsets
	var err error
	switch place.Offset {
	case beginning:
		listed, err = admin.ListStartOffsets(ctx, place.Topic)
	case endOf:
		listed, err = admin.ListEndOffsets(ctx, place.Topic)
	case maxTimestamp:
		listed, err = admin.ListMaxTimestampOffsets(ctx, place.Topic)
	default:
		listed, err = admin.ListOffsetsAfterMilli(ctx, place.Offset, place.Topic)
	}
	if err != nil {
		return 0, err
	}
	found, ok := listed.Lookup(place.Topic, place.Partition)
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	return found.Offset, found.Err
}

func listOffsets(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	for i := range places {
		if places[i].Offset, err = offsetAt(ctx, admin, places[i]); err != nil {
			return nil, err
		}
	}
	return lines.Sorted(places), nil
}

func describeConfig(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := admin.DescribeTopicConfigs(ctx, op.Topic)
	if err != nil {
		return nil, err
	}
	entries, dynamic := map[string]*string{}, []string{}
	for _, resource := range found {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, config := range resource.Configs {
			entries[config.Key] = config.Value
			if config.Source == kmsg.ConfigSourceDynamicTopicConfig {
				dynamic = append(dynamic, config.Key)
			}
		}
	}
	return map[string]any{"entries": entries, "dynamic": dynamic}, nil
}

func configOutcomes(done kadm.AlterConfigsResponses, err error) (any, error) {
	outcomes := lines.Outcomes{}
	for _, each := range done {
		outcomes.Put(client, each.Name, each.Err)
	}
	return outcomes.Answer(), err
}

func changes(set map[string]string, remove []string) []kadm.AlterConfig {
	var all []kadm.AlterConfig
	for name, value := range set {
		all = append(all, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range remove {
		all = append(all, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	return all
}

func alterConfig(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	return configOutcomes(admin.AlterTopicConfigsState(ctx, changes(op.Config, nil), op.Topic))
}

func changeConfig(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	return configOutcomes(admin.AlterTopicConfigs(ctx, changes(op.Set, op.Delete), op.Topic))
}

func groups(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	var found []lines.Group
	if op.Group == "" {
		listed, err := admin.ListGroups(ctx)
		for _, group := range listed {
			found = append(found, lines.Group{ID: group.Group, State: group.State, ClientIDs: []string{}})
		}
		return lines.GroupsAnswer(found), err
	}
	described, err := admin.DescribeGroups(ctx, op.Group)
	if err != nil {
		return nil, err
	}
	for _, group := range described {
		if group.Err != nil {
			return nil, group.Err
		}
		one := lines.Group{ID: group.Group, State: group.State, Protocol: group.Protocol, ClientIDs: []string{}}
		for _, member := range group.Members {
			one.ClientIDs = append(one.ClientIDs, member.ClientID)
		}
		found = append(found, one)
	}
	return lines.GroupsAnswer(found), nil
}

func deleteGroups(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteGroups(ctx, op.Groups...)
	outcomes := lines.Outcomes{}
	for name, each := range done {
		outcomes.Put(client, name, each.Err)
	}
	return outcomes.Answer(), err
}

func groupOffsets(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := admin.FetchOffsets(ctx, op.Group)
	var places []lines.Place
	found.Each(func(at kadm.OffsetResponse) {
		err = errors.Join(err, at.Err)
		places = append(places, lines.Place{
			Topic: at.Topic, Partition: at.Partition, Offset: at.At, Metadata: at.Metadata,
		})
	})
	return lines.Sorted(places), err
}

func alterGroupOffsets(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	return lines.Nothing, admin.CommitAllOffsets(ctx, op.Group, adminOffsets(op.Offsets))
}

func deleteGroupOffsets(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	places, err := readPlaces(line)
	if err != nil {
		return nil, err
	}
	done, err := admin.DeleteOffsets(ctx, op.Group, adminOffsets(places).TopicsSet())
	if err != nil {
		return nil, err
	}
	return lines.Nothing, done.Error()
}

func describeCluster(ctx context.Context, admin *kadm.Client, _ lines.Line) (any, error) {
	found, err := admin.BrokerMetadata(ctx)
	return map[string]any{
		"id": found.Cluster, "controller": found.Controller, "brokers": brokers(found.Brokers),
	}, err
}

func describeLogDirs(ctx context.Context, admin *kadm.Client, line lines.Line) (any, error) {
	op, err := lines.Into[names](line)
	if err != nil {
		return nil, err
	}
	found, err := admin.DescribeBrokerLogDirs(ctx, op.Node, nil)
	sizes := map[spot]int64{}
	found.EachPartition(func(each kadm.DescribedLogDirPartition) {
		sizes[spot{each.Topic, each.Partition}] += each.Size
	})
	var places []lines.Place
	for at, size := range sizes {
		places = append(places, lines.Place{Topic: at.topic, Partition: at.partition, Offset: size})
	}
	return lines.Sorted(places), err
}
