package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// cluster lists nodes with their pods, as a scheduler's snapshot does.
type cluster struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (c cluster) NodeInfos() fwk.NodeInfoLister { return c }
func (c cluster) List() ([]fwk.NodeInfo, error) { return c.nodes, nil }

func node(name string, pods ...*v1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return info
}

func pod(name, key, value, owner string) *v1.Pod {
	meta := metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{key: value}}
	if owner != "" {
		isController := true
		meta.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: &isController}}
	}
	return &v1.Pod{ObjectMeta: meta}
}

func plugin(t *testing.T, url string, nodes ...fwk.NodeInfo) *Plugin {
	t.Helper()
	return &Plugin{
		snapshot: func() fwk.SharedLister { return cluster{nodes: nodes} },
		url:      url + "/scheduler/",
		client:   &http.Client{Timeout: 100 * time.Millisecond},
	}
}

// answering serves one answer, and keeps the last question.
func answering(t *testing.T, answer string, question *map[string]any) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(question); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server
}

func TestCloseTimesGetDifferentScoresNextToASlowNode(t *testing.T) {
	var question map[string]any
	server := answering(t, `{"planned": null, "seconds": {"a": 0.80, "b": 0.82, "slow": 80, "new": null}}`, &question)
	own, peer := pod("own", taskLabel, "x", ""), pod("peer", taskLabel, "y", "")
	nodes := []fwk.NodeInfo{node("a"), node("b", peer), node("slow", pod("other", "l", "z", "")), node("new")}
	p, state := plugin(t, server.URL, nodes...), framework.NewCycleState()
	if status := p.PreScore(context.Background(), state, own, nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	scores := map[string]int64{}
	for _, each := range nodes {
		score, status := p.Score(context.Background(), state, own, each)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		scores[each.Node().Name] = score
	}
	if want := map[string]int64{"a": 98, "b": 95, "slow": 0, "new": 0}; !reflect.DeepEqual(scores, want) {
		t.Errorf("%v, not %v", scores, want)
	}
	peers := []any{map[string]any{"labels": map[string]any{taskLabel: "y"}, "node": "b"}}
	if !reflect.DeepEqual(question["peers"], peers) {
		t.Errorf("%v, not %v", question["peers"], peers)
	}
}

func TestThePlannedNodeIsBest(t *testing.T) {
	none, some := 0.0, 1.0
	scores := nodesAnswer{"plan", map[string]*float64{"plan": &some, "peer": &none, "far": &some}}.scores()
	if want := (nodeScores{"plan": 100, "peer": 99, "far": 98}); !reflect.DeepEqual(scores, want) {
		t.Errorf("%v, not %v", scores, want)
	}
}

func TestNumberedPodsOfOtherOwnersAreNoPeers(t *testing.T) {
	own, same, other := pod("0", jobNumber, "0", "one"), pod("1", jobNumber, "1", "one"), pod("2", jobNumber, "1", "two")
	peers := plugin(t, "", node("a", own, same), node("b", other)).peers(own)
	if len(peers) != 1 || peers[0].Node != "a" || peers[0].Labels[jobNumber] != "1" {
		t.Error(peers)
	}
}

func TestWithoutAnAnswerPodsAreScheduledAsByDefault(t *testing.T) {
	asked, release := 0, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked++
		<-release
	}))
	defer server.Close()
	defer close(release)
	nodes := []fwk.NodeInfo{node("a"), node("b")}
	p, own := plugin(t, server.URL, nodes...), pod("own", taskLabel, "x", "")
	for range 2 {
		if status := p.PreScore(context.Background(), framework.NewCycleState(), own, nodes); !status.IsSkip() {
			t.Errorf("%v", status)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

type group struct {
	fwk.PodGroupInfo
	pods []*v1.Pod
}

func (g group) GetUnscheduledPods() []*v1.Pod { return g.pods }

type proposal struct {
	fwk.ProposedAssignment
	pod  *v1.Pod
	node string
}

func (p proposal) GetPod() *v1.Pod     { return p.pod }
func (p proposal) GetNodeName() string { return p.node }

func TestAPlacementIsScoredByItsPredictedCompletion(t *testing.T) {
	var question map[string]any
	server := answering(t, `{"seconds": 2.5}`, &question)
	x, y := pod("x", taskLabel, "x", ""), pod("y", taskLabel, "y", "")
	p := plugin(t, server.URL, node("a"))
	placed := &fwk.PodGroupAssignments{ProposedAssignments: []fwk.ProposedAssignment{proposal{pod: x, node: "a"}, proposal{pod: y, node: "b"}}}
	score, status := p.ScorePlacement(context.Background(), nil, group{pods: []*v1.Pod{x, y}}, placed)
	if !status.IsSuccess() || score != 2_500_000_000 || len(question["pods"].([]any)) != 2 {
		t.Error(score, status, question)
	}
	// A placement without room for one of the pods.
	placed.ProposedAssignments = placed.ProposedAssignments[:1]
	if score, _ = p.ScorePlacement(context.Background(), nil, group{pods: []*v1.Pod{x, y}}, placed); score != unknown {
		t.Error(score)
	}
	scores := []fwk.PlacementScore{{Score: 2_500_000_000}, {Score: 5_000_000_000}, {Score: unknown}, {Score: 0}}
	if status := p.NormalizePlacementScore(context.Background(), nil, nil, scores); !status.IsSuccess() {
		t.Error(status)
	}
	for i, want := range []int64{98, 49, 0, 99} {
		if scores[i].Score != want {
			t.Errorf("%v", scores)
		}
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, raw := range []string{`{}`, `{"url": "localhost"}`, `{"url": "http://h", "deadline": 2}`, `{"url": "http://h", "deadlineSeconds": 0}`} {
		_, err := New(context.Background(), &runtime.Unknown{Raw: []byte(raw)}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "args") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
