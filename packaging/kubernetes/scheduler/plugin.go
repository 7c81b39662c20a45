package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"
)

const (
	// Name is the plugin's name in a KubeSchedulerConfiguration.
	Name = "Gavotte"

	// Time without questions after gavotte has not answered, so that not every pod waits for the deadline.
	pause = 10 * time.Second
	// Placements whose seconds are unknown are worse than all others.
	unknown = math.MaxInt64

	appLabel  = "gavotte.io/app"
	taskLabel = "gavotte.io/task"
	// Labels with which an Indexed Job and a StatefulSet number their pods.
	jobNumber = "batch.kubernetes.io/job-completion-index"
	setNumber = "apps.kubernetes.io/pod-index"
)

// Arguments are the plugin's `args` in a KubeSchedulerConfiguration.
type Arguments struct {
	// URL is the address of `gavotte serve`, with the password if it needs one.
	URL string `json:"url"`
	// DeadlineSeconds is how long the scheduler waits for an answer; 1 unless given.
	DeadlineSeconds float64 `json:"deadlineSeconds"`
}

// Plugin scores nodes and placements by predicted seconds that it gets from `gavotte serve`.
// If it gets none, it logs a warning, and pods are scheduled as without the plugin.
type Plugin struct {
	snapshot    func() fwk.SharedLister
	url         string
	client      *http.Client
	silentUntil atomic.Int64
}

var (
	_ fwk.PreScorePlugin       = &Plugin{}
	_ fwk.ScorePlugin          = &Plugin{}
	_ fwk.PlacementScorePlugin = &Plugin{}
	_ fwk.SignPlugin           = &Plugin{}
)

// New returns the plugin for the arguments of a profile.
func New(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	arguments := Arguments{DeadlineSeconds: 1}
	if unknown, ok := object.(*runtime.Unknown); ok && unknown.Raw != nil {
		if err := yaml.UnmarshalStrict(unknown.Raw, &arguments); err != nil {
			return nil, fmt.Errorf("args: %w", err)
		}
	}
	address, err := url.Parse(arguments.URL)
	if err != nil || address.Host == "" {
		return nil, errors.New("args.url: is no address; give that of gavotte serve, such as http://127.0.0.1:8788")
	}
	if arguments.DeadlineSeconds <= 0 {
		return nil, errors.New("args.deadlineSeconds: is not positive; give seconds, such as 1")
	}
	return &Plugin{
		snapshot: handle.SnapshotSharedLister,
		url:      strings.TrimRight(arguments.URL, "/") + "/scheduler/",
		client:   &http.Client{Timeout: time.Duration(arguments.DeadlineSeconds * float64(time.Second))},
	}, nil
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// located is a pod and its node, as gavotte reads it.
type located struct {
	Labels map[string]string `json:"labels"`
	Node   string            `json:"node"`
}

type nodesAnswer struct {
	// Planned is the node of the Placement, unless peers elsewhere have spoilt it.
	Planned string
	// Seconds are nil for nodes that were not measured.
	Seconds map[string]*float64
}

// nodeScores are the scores of one pod's nodes.
type nodeScores map[string]int64

// Clone returns the same scores, since nothing changes them.
func (s nodeScores) Clone() fwk.StateData { return s }

// PreScore asks for the seconds of the pod's transfers on each node. It skips the plugin for pods that are no tasks.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if job(pod) == "" {
		return fwk.NewStatus(fwk.Skip)
	}
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Node().Name
	}
	question := map[string]any{"labels": pod.Labels, "nodes": names, "peers": p.peers(pod)}
	var answer nodesAnswer
	if !p.ask(ctx, "seconds", question, &answer) || len(answer.Seconds) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(Name, answer.scores())
	return nil
}

// Score returns the score of a node, 0 to 100.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(Name)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return data.(nodeScores)[node.Node().Name], nil
}

// ScoreExtensions returns nil: scores are 0 to 100 already.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// ScorePlacement returns the predicted completion time of the group's job in nanoseconds.
func (p *Plugin) ScorePlacement(ctx context.Context, _ fwk.PlacementCycleState, group fwk.PodGroupInfo, placement *fwk.PodGroupAssignments) (int64, *fwk.Status) {
	proposed := placement.ProposedAssignments
	// Without some of its pods, a job would seem to finish sooner.
	if len(proposed) == 0 || len(proposed) < len(group.GetUnscheduledPods()) {
		return unknown, nil
	}
	first := proposed[0].GetPod()
	if job(first) == "" {
		return unknown, nil
	}
	pods := p.peers(first)
	for _, each := range proposed {
		pods = append(pods, located{each.GetPod().Labels, each.GetNodeName()})
	}
	var answer struct{ Seconds *float64 }
	if !p.ask(ctx, "completion", map[string]any{"pods": pods}, &answer) || answer.Seconds == nil || *answer.Seconds > math.MaxInt32 {
		return unknown, nil
	}
	return int64(*answer.Seconds * 1e9), nil
}

// PlacementScoreExtensions returns what turns times into scores.
func (p *Plugin) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return p }

// NormalizePlacementScore replaces times by scores, 0 to 100.
func (p *Plugin) NormalizePlacementScore(_ context.Context, _ fwk.PodGroupCycleState, _ fwk.PodGroupInfo, scores []fwk.PlacementScore) *fwk.Status {
	least := math.Inf(1)
	for _, score := range scores {
		least = lesser(least, float64(score.Score))
	}
	for i, score := range scores {
		scores[i].Score = 0
		if score.Score != unknown {
			scores[i].Score = points(float64(score.Score), least)
		}
	}
	return nil
}

// SignPod says that tasks are not alike. Other pods are, as far as this plugin knows.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if job(pod) != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "each task has its own peers")
	}
	return nil, nil
}

// scores returns 100 for the planned node, and for others what their seconds give.
func (a nodesAnswer) scores() nodeScores {
	least := math.Inf(1)
	for _, seconds := range a.Seconds {
		if seconds != nil {
			least = lesser(least, *seconds)
		}
	}
	scores := nodeScores{}
	for node, seconds := range a.Seconds {
		if node == a.Planned {
			scores[node] = fwk.MaxScore
		} else if seconds != nil {
			scores[node] = points(*seconds, least)
		}
	}
	return scores
}

// lesser returns the lesser of two times, apart from 0.
func lesser(least, time float64) float64 {
	if time > 0 {
		return min(least, time)
	}
	return least
}

// points returns 99 for no time at all, 98 for the least other time, and less in proportion to the time.
// One slow node therefore does not make all others alike.
func points(time, least float64) int64 {
	if time <= 0 {
		return fwk.MaxScore - 1
	}
	return int64(float64(fwk.MaxScore-2) * least / time)
}

// job returns what identifies the job of a pod: the application in its namespace, and for numbered pods their owner.
// It is empty for a pod that is no task.
func job(pod *v1.Pod) string {
	key := pod.Namespace + "/" + pod.Labels[appLabel]
	if pod.Labels[taskLabel] != "" {
		return key
	}
	if pod.Labels[jobNumber] == "" && pod.Labels[setNumber] == "" {
		return ""
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		key += "/" + string(owner.UID)
	}
	return key
}

// peers returns the pods of the same job that have a node.
func (p *Plugin) peers(pod *v1.Pod) []located {
	peers := []located{}
	nodes, err := p.snapshot().NodeInfos().List()
	if err != nil {
		return peers
	}
	own := job(pod)
	for _, node := range nodes {
		for _, other := range node.GetPods() {
			if each := other.GetPod(); each.UID != pod.UID && job(each) == own {
				peers = append(peers, located{each.Labels, node.Node().Name})
			}
		}
	}
	return peers
}

// ask puts a question to gavotte, and returns whether it has answered.
func (p *Plugin) ask(ctx context.Context, path string, question, answer any) bool {
	if time.Now().UnixNano() < p.silentUntil.Load() {
		return false
	}
	err := p.post(ctx, path, question, answer)
	if err != nil {
		klog.Warningf("%s: scheduling without measured times: %v", Name, err)
	}
	return err == nil
}

func (p *Plugin) post(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		p.silentUntil.Store(time.Now().Add(pause).UnixNano())
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}
