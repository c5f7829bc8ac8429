package helm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const serverKey = "server"

// api is the server of a script, for the administrator.
type api struct {
	url string
	web *http.Client
}

// request returns the code and the body of the answer.
func request(ts *testscript.TestScript, method, path string, body []byte) (int, string) {
	a, is := ts.Value(serverKey).(*api)
	if !is {
		ts.Fatalf("the script has no server")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	ts.Check(err)
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	req.Header.Set("Content-Type", kind)
	resp, err := a.web.Do(req)
	ts.Check(err)
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read
	ts.Check(err)
	return resp.StatusCode, string(text)
}

// await asks for an object until the answer has a code, and returns its body. What is
// waited for a Helm in the background does.
func await(ts *testscript.TestScript, path string, code int) string {
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, text := request(ts, http.MethodGet, path, nil)
		if got == code {
			return text
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("GET %s answers %d for a minute, want %d: %s", path, got, code, text)
		}
	}
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: get PATH")
	}
	_, _ = io.WriteString(ts.Stdout(), await(ts, args[0], http.StatusOK)) // it goes into memory
}

func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone PATH")
	}
	await(ts, args[0], http.StatusNotFound)
}

// send sends a body, which the server must take.
func send(ts *testscript.TestScript, method, path string, body []byte) {
	if code, text := request(ts, method, path, body); code != http.StatusOK && code != http.StatusCreated {
		ts.Fatalf("%s %s: %d %s", method, path, code, text)
	}
}

func patch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: patch PATH FILE")
	}
	object, _, _ := strings.Cut(args[0], "/status")
	await(ts, object, http.StatusOK)
	send(ts, http.MethodPatch, args[0], []byte(ts.ReadFile(args[1])))
}

// rollout writes a ReplicaSet of a Deployment, and into the status of both that all replicas
// are ready.
func rollout(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: rollout PATH")
	}
	var d struct {
		Metadata struct {
			Name, UID  string
			Generation int
		}
		Spec struct {
			Replicas           int
			Selector, Template json.RawMessage
		}
	}
	ts.Check(json.Unmarshal([]byte(await(ts, args[0], http.StatusOK)), &d))
	collection, _, _ := strings.Cut(args[0], "/deployments/")
	name, n := d.Metadata.Name+"-1", d.Spec.Replicas
	send(ts, http.MethodPost, collection+"/replicasets",
		fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":%q,
		"labels":{"app.kubernetes.io/name":"shop","app.kubernetes.io/instance":"front"},
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":%q,"uid":%q,"controller":true}]},
		"spec":{"replicas":%d,"selector":%s,"template":%s}}`, name, d.Metadata.Name, d.Metadata.UID, n, d.Spec.Selector,
			d.Spec.Template))
	ready := fmt.Sprintf(`"replicas":%d,"readyReplicas":%d,"availableReplicas":%d`, n, n, n)
	send(ts, http.MethodPatch, collection+"/replicasets/"+name+"/status",
		fmt.Appendf(nil, `{"status":{"observedGeneration":1,%s}}`, ready))
	send(ts, http.MethodPatch, args[0]+"/status",
		fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"updatedReplicas":%d,%s,"conditions":[
		{"type":"Available","status":"True","reason":"MinimumReplicasAvailable"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, d.Metadata.Generation, n, ready))
}
