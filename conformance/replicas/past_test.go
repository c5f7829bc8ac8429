package replicas_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReplicasAnswerAboutThePast: each by the time at which it saw a change, and under the revisions of etcd.
func TestReplicasAnswerAboutThePast(t *testing.T) {
	at := member(t)
	replicas := []*replica{start(t, at, t.TempDir(), nil), start(t, at, t.TempDir(), nil)}
	maps := replicas[0].client.CoreV1().ConfigMaps("default")
	first, err := maps.Create(t.Context(), configMap("a", "1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	get := func(r *replica, query string) (body []byte, err error) {
		return r.client.CoreV1().RESTClient().Get().RequestURI("/api/v1/namespaces/default/configmaps" + query).DoRaw(t.Context())
	}
	for _, r := range replicas { // both have seen it
		if _, err := get(r, "?resourceVersion="+first.ResourceVersion); err != nil {
			t.Fatalf("list: %v", err)
		}
	}
	const apart = 20 * time.Millisecond // times are of ms
	<-time.After(apart)
	between := url.QueryEscape(time.Now().Format(time.RFC3339Nano))
	<-time.After(apart)
	second, err := maps.Update(t.Context(), configMap("a", "2"), metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	for i, r := range replicas {
		for query, want := range map[string]string{
			"/a?at=" + between: "1", "?at=" + between: "1",
			"/a?resourceVersionMatch=Exact&resourceVersion=" + second.ResourceVersion: "2",
		} {
			body, err := get(r, query)
			if err != nil || !strings.Contains(string(body), fmt.Sprintf(`"data":{"k":%q}`, want)) {
				t.Errorf("%s at replica %d: %v %s", query, i, err, body)
			}
		}
		body, err := get(r, "/a?changes=OldestFirst")
		var page struct {
			Items []struct{ Type, ResourceVersion string }
		}
		if err != nil || json.Unmarshal(body, &page) != nil || len(page.Items) != 3 ||
			page.Items[0].ResourceVersion != first.ResourceVersion || page.Items[1].ResourceVersion != second.ResourceVersion ||
			page.Items[2].Type != "DELETED" {
			t.Errorf("changes at replica %d: %v %s", i, err, body)
		}
	}
}
