package relay_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless/internal/wire"
)

// changeList is what a client decodes of a page of changes.
type changeList struct {
	After, UpTo string
	Metadata    metav1.ListMeta
	Gaps        []struct{ After, UpTo string }
	Items       []struct {
		Type, ResourceVersion string
		Time                  time.Time
		Object, Previous      json.RawMessage
	}
}

// raw is the answer to a GET of the ConfigMaps, or of one.
func raw(t testing.TB, c *kubernetes.Clientset, query string) ([]byte, error) {
	t.Helper()
	return c.CoreV1().RESTClient().Get().RequestURI("/api/v1/namespaces/default/configmaps" + query).DoRaw(t.Context())
}

func changes(t testing.TB, c *kubernetes.Clientset, query string) (l changeList) {
	t.Helper()
	body, err := raw(t, c, query)
	if err == nil {
		err = json.Unmarshal(body, &l)
	}
	if err != nil {
		t.Fatalf("changes %s: %v", query, err)
	}
	return l
}

func (l changeList) lines() (lines []string) {
	for _, i := range l.Items {
		lines = append(lines, fmt.Sprintf("%s %s %s before: %s", i.Type, i.ResourceVersion, i.Object, i.Previous))
	}
	return lines
}

// A relay has the past that it has seen, under upstream's resourceVersions, and says where it began to see it.
func TestThePastOfARelayIsThatOfItsUpstream(t *testing.T) {
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	put(t, direct, "b", "1")
	before := time.Now()
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())
	_, rv := list(t, relayed, metav1.ListOptions{})
	put(t, direct, "a", "2")
	remove(t, direct, "b")
	last := put(t, direct, "a", "3")

	for _, query := range []string{
		"?changes=OldestFirst&after=" + rv,
		"?changes=NewestFirst&after=" + rv,
		"?changes=OldestFirst&after=" + rv + "&upTo=" + last.ResourceVersion,
		"/a?changes=NewestFirst&after=" + rv,
	} {
		got := changes(t, relayed, query)
		if diff := cmp.Diff(changes(t, direct, query).lines(), got.lines()); diff != "" || len(got.Items) < 2 {
			t.Errorf("%s (-upstream +relay):\n%s", query, diff)
		}
		if got.After != rv || len(got.Gaps) != 0 {
			t.Errorf("%s: after %s, gaps %v", query, got.After, got.Gaps)
		}
	}
	var paged []string
	page := changes(t, relayed, "?changes=NewestFirst&limit=1")
	for paged = page.lines(); page.Metadata.Continue != ""; paged = append(paged, page.lines()...) {
		page = changes(t, relayed, "?changes=NewestFirst&limit=1&continue="+page.Metadata.Continue)
	}
	whole := changes(t, relayed, "?changes=NewestFirst")
	if diff := cmp.Diff(whole.lines(), paged); diff != "" || len(paged) < 5 {
		t.Errorf("in pages (-whole +pages):\n%s", diff)
	}
	if len(whole.Gaps) != 1 || whole.Gaps[0].After != "0" || whole.Gaps[0].UpTo != rv {
		t.Errorf("what was before the relay: %v, want a gap up to %s", whole.Gaps, rv)
	}

	// By its own clock, and by upstream's resourceVersions.
	deleted := whole.Items[1]
	for _, query := range []string{
		"/a?at=" + url.QueryEscape(deleted.Time.Add(900*time.Microsecond).Format(time.RFC3339Nano)),
		"/a?resourceVersionMatch=Exact&resourceVersion=" + deleted.ResourceVersion,
	} {
		var o struct{ Data map[string]string }
		body, err := raw(t, relayed, query)
		if err != nil || json.Unmarshal(body, &o) != nil {
			t.Fatalf("%s: %v %s", query, err, body)
		}
		if v := o.Data["v"]; v != "2" && v != "3" { // the next change may have the same time
			t.Errorf("%s: %s", query, body)
		}
	}
	_, err := raw(t, relayed, "/a?at="+url.QueryEscape(before.Format(time.RFC3339Nano)))
	if status(err) != 410 { // it was there, and the relay does not know it
		t.Errorf("an object before the relay began: %v", err)
	}
	foreign := wire.ChangesToken{After: 1, UpTo: 2, History: 77}.Made().Encode()
	_, err = raw(t, relayed, "?changes=OldestFirst&continue="+foreign)
	if status(err) != 410 {
		t.Errorf("a token of another history: %v", err)
	}
}

func status(err error) int32 {
	if s, is := err.(interface{ Status() metav1.Status }); is {
		return s.Status().Code
	}
	return 0
}
