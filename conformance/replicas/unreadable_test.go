package replicas_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/kube"
)

// private is in values that cannot be read. No client may see it.
const private = "PRIVATE"

// damaged are values that no server can read, by resource: in no known form, an envelope whose message is none, in a
// version that there never was, and encrypted with a key that is not configured.
var damaged = map[string][]string{
	"configmaps": {
		private + ", and no object", "k8s\x00\n\x0f\n\x02v1\n\x09ConfigMap\x12\xff" + private,
		`{"apiVersion":"v9","kind":"ConfigMap","metadata":{"name":"b"},"data":{"a":"` + private + `"}}`,
	},
	"secrets": {"k8s:enc:secretbox:v1:other:" + private},
}

// TestAValueThatCannotBeReadConcernsItsResourceOnlyAsBesideKubeAPIServer: single objects are answered as
// kube-apiserver does; lists and watches fail at both, until the value is deleted in kube-apiserver's way or
// replaced.
func TestAValueThatCannotBeReadConcernsItsResourceOnlyAsBesideKubeAPIServer(t *testing.T) {
	s := startSides(t)
	client := etcdAt(t, s.cluster.EtcdURL())
	for resource, values := range damaged {
		for n, value := range values {
			d := damage{s, client, n, resource, value}
			if n == 0 && resource == "configmaps" {
				d.permit(t)
			}
			d.check(t)
		}
	}
	damage{sides: s, client: client}.deleteOthers(t)
}

// damage is a value that cannot be read.
type damage struct {
	*sides

	client          *clientv3.Client
	number          int // among those of the resource
	resource, value string
}

const lostName = "b"

func (d damage) key() string { return "/registry/" + d.resource + "/default/" + lostName }

func (d damage) body(name string) string {
	kind := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[d.resource]
	return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"` + name + `","namespace":"default"}}`
}

// ask sends a request and returns the code, and the reason and text of a Status.
func (d damage) ask(t *testing.T, at *rest.Config, method, path, body string) (code int, status metav1.Status) {
	t.Helper()
	web, err := rest.HTTPClientFor(at)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer web.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, at.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", string(types.MergePatchType))
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if at == d.ours && strings.Contains(string(text), private) {
		t.Errorf("%s %s is answered with the value: %s", method, path, text)
	}
	_ = json.Unmarshal(text, &status) // it may be an object
	return resp.StatusCode, status
}

func (d damage) check(t *testing.T) {
	t.Helper()
	collection := "/api/v1/namespaces/default/" + d.resource
	for _, name := range []string{"a", lostName} {
		d.ask(t, d.ours, http.MethodPost, collection, d.body(name)) // it may be there
	}
	gvr := configMaps
	if d.resource == "secrets" {
		gvr = secrets
	}
	list, err := d.replica.Resource(gvr).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	before := list.GetResourceVersion()
	open, err := d.replica.Resource(gvr).Watch(t.Context(), metav1.ListOptions{ResourceVersion: before})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer open.Stop()
	if _, err := d.client.Put(t.Context(), d.key(), d.value); err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	if e := next(t, open); e.Type != watch.Error || !apierrors.IsStoreReadError(apierrors.FromObject(e.Object)) {
		t.Errorf("the watch that was open gets %s %v", e.Type, e.Object)
	}
	d.compare(t, collection)
	if d.number == 0 {
		d.gapless.stop(t)
		d.startGapless(t)
		d.compare(t, collection)
	}
	d.report(t)
	at := d.ours
	if d.number == 1 {
		at = d.upstream
	}
	d.mend(t, collection, at)
	again, err := d.replica.Resource(gvr).Watch(t.Context(), metav1.ListOptions{ResourceVersion: before})
	if err == nil {
		err = apierrors.FromObject(next(t, again).Object)
		again.Stop()
	}
	if why := kube.WhyExpired(err); why == nil || why.Reason != kube.ReasonUnreadable {
		t.Errorf("a watch from before is answered with %v", err)
	}
}

// compare asks both servers the same.
func (d damage) compare(t *testing.T, collection string) {
	t.Helper()
	for _, c := range []struct{ method, path, body string }{
		{http.MethodGet, collection + "/a", ""},
		{http.MethodGet, collection + "/" + lostName, ""},
		{http.MethodPatch, collection + "/a", `{"metadata":{"labels":{"l":"` + d.key() + `"}}}`},
		{http.MethodPatch, collection + "/a", `{"metadata":{"labels":{"l":"x"}}}`},
		{http.MethodPatch, collection + "/" + lostName, `{"metadata":{"labels":{"l":"x"}}}`},
		{http.MethodPut, collection + "/" + lostName, d.body(lostName)},
		{http.MethodPost, collection, d.body(lostName)},
		{http.MethodDelete, collection + "/" + lostName, ""},
		{http.MethodDelete, collection + "/" + lostName, strings.Replace(unsafe, "{", `{"dryRun":["All"],`, 1)},
		{http.MethodDelete, collection + "/" + lostName, strings.Replace(unsafe, "{", `{"dryRun":["Some"],`, 1)},
		{http.MethodDelete, collection + "/" + lostName, strings.Replace(unsafe, "{", `{"gracePeriodSeconds":0,`, 1)},
		{http.MethodDelete, collection + "/" + lostName, strings.Replace(unsafe, "{", `{"orphanDependents":false,`, 1)},
		{http.MethodDelete, collection + "/" + lostName, strings.Replace(unsafe, "{", `{"propagationPolicy":"Background",`, 1)},
		{http.MethodDelete, collection + "/" + lostName, strings.Replace(unsafe, "{", `{"preconditions":{},`, 1)},
		{http.MethodDelete, collection + "/" + lostName + "?dryRun=All&" + unsafeQuery, ""},
		{http.MethodDelete, collection + "/" + lostName, strings.Replace(unsafe, "true", "false", 1)},
		{http.MethodDelete, collection + "/a", unsafe},
		{http.MethodDelete, collection + "/none", unsafe},
		{http.MethodDelete, collection, unsafe},
		{http.MethodGet, collection, ""},
		{http.MethodGet, "/api/v1/namespaces", ""},
		{http.MethodGet, "/readyz", ""},
	} {
		theirs, theirStatus := d.ask(t, d.upstream, c.method, c.path, c.body)
		ours, status := d.ask(t, d.ours, c.method, c.path, c.body)
		if ours != theirs || theirStatus.Reason != "" && status.Reason != theirStatus.Reason { // its updates give no reason
			t.Errorf("%s %s with %.20q in etcd: %d %s %s, at kube-apiserver %d %s %s", c.method, c.path, d.value,
				ours, status.Reason, status.Message, theirs, theirStatus.Reason, theirStatus.Message)
		}
		if (strings.Contains(c.body, "true") || strings.Contains(c.path, "true")) && !sameStatus(status, theirStatus) {
			t.Errorf("%s %s %s with %.20q in etcd is answered with\n%+v, at kube-apiserver with\n%+v", c.method, c.path, c.body,
				d.value, status, theirStatus)
		}
	}
	for _, query := range []string{"", "?resourceVersion=0", "?watch=1", "?limit=1"} {
		code, status := d.ask(t, d.ours, http.MethodGet, collection+query, "")
		if code != http.StatusInternalServerError || status.Reason != metav1.StatusReasonStoreReadError ||
			!strings.Contains(status.Message, d.key()) {
			t.Errorf("GET %s: %d %s, want 500 with the key %s", query, code, status.Message, d.key())
		}
	}
}

// unsafe are the options of a deletion of an object that cannot be read.
const unsafe = `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`

const unsafeQuery = "ignoreStoreReadErrorWithClusterBreakingPotential=true"

// sameStatus reports whether two answers are the same, but for the keys that they name.
func sameStatus(ours, theirs metav1.Status) bool {
	theirs.Message = strings.ReplaceAll(theirs.Message, "/registry/", "/")
	return equality.Semantic.DeepEqual(ours, theirs)
}

// as returns the configuration of a client that is somebody else.
func as(user string, cfg *rest.Config) *rest.Config {
	other := rest.CopyConfig(cfg)
	other.Impersonate.UserName = user
	return other
}

// permit lets jane delete in the namespace default, and joe also what cannot be read.
func (d damage) permit(t *testing.T) {
	t.Helper()
	const path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	for user, verbs := range map[string]string{"jane": `"delete"`, "joe": `"delete","unsafe-delete-ignore-read-errors"`} {
		role := `{"metadata":{"name":"` + user + `"},"rules":[{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":[` +
			verbs + `]}]}`
		binding := `{"metadata":{"name":"` + user +
			`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"` +
			user + `"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"` + user + `"}]}`
		for kind, body := range map[string]string{"roles": role, "rolebindings": binding} {
			if code, status := d.ask(t, d.upstream, http.MethodPost, path+kind, body); code != http.StatusCreated {
				t.Fatalf("create in %s: %d %s", kind, code, status.Message)
			}
		}
	}
	dry := strings.Replace(unsafe, "{", `{"dryRun":["All"],`, 1)
	lost := "/api/v1/namespaces/default/configmaps/" + lostName
	for _, at := range []*rest.Config{d.upstream, d.ours} {
		harness.Eventually(t, "joe may", func() bool {
			code, _ := d.ask(t, as("joe", at), http.MethodDelete, lost, dry)
			return code != http.StatusForbidden
		})
	}
	code, theirs := d.ask(t, as("jane", d.upstream), http.MethodDelete, lost, unsafe)
	_, ours := d.ask(t, as("jane", d.ours), http.MethodDelete, lost, unsafe)
	if code != http.StatusForbidden || !sameStatus(ours, theirs) {
		t.Errorf("who may not is answered with\n%+v, at kube-apiserver with\n%+v", ours, theirs)
	}
}

// deleteOthers deletes what kube-apiserver 1.37 does not let one delete: the storage of Namespaces and of the kinds of
// RBAC does not say how.
func (d damage) deleteOthers(t *testing.T) {
	t.Helper()
	for path, key := range map[string]string{
		"/api/v1/namespaces/lost": "/registry/namespaces/lost",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/lost": "/registry/roles/default/lost",
	} {
		if _, err := d.client.Put(t.Context(), key, private); err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
		code, theirs := d.ask(t, d.upstream, http.MethodDelete, path, unsafe)
		if code != http.StatusInternalServerError || !strings.Contains(theirs.Message, "no unsafe deleter provided") {
			t.Errorf("DELETE %s at kube-apiserver: %d %s", path, code, theirs.Message)
		}
		if code, ours := d.ask(t, d.ours, http.MethodDelete, path, unsafe); code != http.StatusOK {
			t.Errorf("DELETE %s: %d %s", path, code, ours.Message)
		}
		if left := keysBelow(t, d.client, key); len(left.Kvs) > 0 {
			t.Errorf("etcd has %v", left.Kvs)
		}
	}
}

// report checks what the replica says of itself.
func (d damage) report(t *testing.T) {
	t.Helper()
	lost := d.gapless.status(t).Unreadable
	if len(lost) != 1 || lost[0].Resource != d.resource || lost[0].Name != lostName || lost[0].EtcdKey != d.key() ||
		strings.Contains(lost[0].Why, private) {
		t.Errorf("the status has %+v", lost)
	}
	read := func(path string) (string, error) {
		text, err := d.gapless.client.RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		return string(text), err
	}
	if text, err := read("/readyz"); err != nil || text != "ok" {
		t.Errorf("/readyz is %s, %v", text, err)
	}
	if text, err := read("/readyz/readable-values"); err == nil || !strings.Contains(text, d.key()) {
		t.Errorf("/readyz/readable-values is %s, %v", text, err)
	}
	metric := `gapless_unreadable_objects{resource="` + d.resource + `"} 1`
	if text, err := read("/metrics"); err != nil || !strings.Contains(text, metric) {
		t.Errorf("the metrics do not name it: %v", err)
	}
}

// mend deletes the value as one of both servers lets one do it, and sees that the other one has followed.
func (d damage) mend(t *testing.T, collection string, at *rest.Config) {
	t.Helper()
	code, status := d.ask(t, at, http.MethodDelete, collection+"/"+lostName, unsafe)
	if code != http.StatusOK {
		t.Fatalf("delete: %d %s", code, status.Message)
	}
	if left := keysBelow(t, d.client, d.key()); len(left.Kvs) > 0 {
		t.Errorf("etcd has %v", left.Kvs)
	}
	harness.Eventually(t, "kube-apiserver serves the resource again", func() bool {
		code, _ := d.ask(t, d.upstream, http.MethodGet, collection+"?resourceVersion=0", "")
		return code == http.StatusOK
	})
	harness.Eventually(t, "the resource is served again", func() bool {
		code, _ := d.ask(t, d.ours, http.MethodGet, collection, "")
		return code == http.StatusOK
	})
	if lost := d.gapless.status(t).Unreadable; len(lost) > 0 {
		t.Errorf("the status has %+v", lost)
	}
}

// TestAReplicaStartsWithoutTheKeysOfASecret: it serves all but Secrets, and these after a start with the keys.
func TestAReplicaStartsWithoutTheKeysOfASecret(t *testing.T) {
	s := startSides(t)
	secret := object(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"dg=="}}`)
	_, err := s.kubectl.Resource(secrets).Namespace("default").Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create at kube-apiserver: %v", err)
	}
	s.gapless.stop(t)
	dir, configure := t.TempDir(), s.configure
	s.dir, s.configure = dir, func(*gapless.Config) {}
	s.startGapless(t)
	if _, err := s.replica.Resource(configMaps).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list ConfigMaps without the keys of Secrets: %v", err)
	}
	_, err = s.replica.Resource(secrets).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsStoreReadError(err) || !strings.Contains(err.Error(), "/registry/secrets/default/a") {
		t.Errorf("list Secrets without their keys: %v", err)
	}
	s.gapless.stop(t)
	s.configure = configure
	s.startGapless(t)
	list, err := s.replica.Resource(secrets).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("list Secrets with their keys: %v, %v", list, err)
	}
}
