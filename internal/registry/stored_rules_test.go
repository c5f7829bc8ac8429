package registry_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestWhatIsStoredMayStayThoughTodaysRulesRefuseIt: an earlier version has accepted it, and who removes a finalizer
// cannot mend it.
func TestWhatIsStoredMayStayThoughTodaysRulesRefuseIt(t *testing.T) {
	log := runningLog(t)
	for key, value := range map[string]string{
		"services/default/out": `{"apiVersion":"v1","kind":"Service","metadata":{"name":"out",` +
			`"namespace":"default","uid":"u-1",` +
			`"creationTimestamp":"2026-11-20T10:00:00Z","finalizers":["example.org/f"]},"spec":{"type":"ExternalName",` +
			`"externalName":"example.org","sessionAffinity":"None","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"},` +
			`"status":{"loadBalancer":{}}}`,
		"pods/default/third": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"third","namespace":"default","uid":"u-2",` +
			`"creationTimestamp":"2026-11-20T10:00:00Z","finalizers":["example.org/f"]},"spec":{"containers":[{"name":"a",` +
			`"image":"example.org/a:1","imagePullPolicy":"IfNotPresent","resources":{"requests":{"cpu":"33.3m"}},` +
			`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"restartPolicy":"Always",` +
			`"terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},` +
			`"schedulerName":"default-scheduler",` +
			`"enableServiceLinks":true},"status":{"phase":"Pending","qosClass":"Burstable"}}`,
	} {
		if _, err := log.Commit(t.Context(), store.Txn{Key: key, Value: []byte(value)}); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	s, _ := serveOn(t, log, nil)
	for _, at := range [][]string{{"services", "default", "out"}, {"pods", "default", "third"}} {
		target := s.at(at[0], at[1:]...)
		s.merge(target, `{"metadata":{"labels":{"app":"web"}}}`)
		if o := s.merge(target, `{"metadata":{"finalizers":null}}`); len(o.Labels()) != 1 {
			t.Errorf("%v has the labels %v", at, o.Labels())
		}
	}
	for patch, target := range map[string][]string{
		`{"spec":{"externalName":"not valid"}}`:                                           {"services", "default", "out"},
		`{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1500m"}}}]}}`: {"pods", "default", "third"},
	} {
		_, err := s.Patch(t.Context(), s.at(target[0], target[1:]...), mergePatch(patch), metav1.PatchOptions{})
		if code := wire.StatusOf(err).Code; code != 422 {
			t.Errorf("%s: %v", patch, err)
		}
	}
}
