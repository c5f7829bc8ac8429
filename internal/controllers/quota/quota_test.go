package quota_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/controllers/quota"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	quotas "github.com/gapless-io/gapless/internal/quota"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

// counting is a registry with the controller, and a quota for ConfigMaps in the namespace default.
type counting struct {
	*registry.Registry

	t      *testing.T
	live   *kinds.Live
	ledger *quotas.Ledger
	key    wire.Key
}

// count runs them within a bubble, where time passes when all wait.
func count(t *testing.T, shared bool, test func(c *counting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
		if err != nil {
			t.Fatalf("open the log: %v", err)
		}
		c := &counting{
			t: t, live: kinds.NewLive(builtin.Catalog()), ledger: quotas.NewLedger(),
			key: wire.Key{Namespace: "default", Name: "q"},
		}
		table, classes := quotas.NewTable(), quotas.NewDeviceClasses(nil)
		controller := quota.New(quota.Config{
			Live: c.live, Logger: slog.New(slog.DiscardHandler), Table: table, Classes: classes, Ledger: c.ledger, Shared: shared,
		})
		c.Registry = registry.New(registry.Config{
			Store: log, Live: c.live, Collectors: []registry.Collector{controller},
			Followers: []registry.Follower{table, classes},
		})
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 3)
		go func() { ended <- log.Run(context.WithoutCancel(ctx)) }() // ends with Close
		go func() { ended <- c.Run(ctx) }()                          // ends with ctx
		if err := c.WaitReady(t.Context()); err != nil {
			t.Fatalf("wait until it is ready: %v", err)
		}
		go func() { ended <- controller.Run(ctx, c) }() // ends with ctx
		c.create("resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"10"}}}`)
		test(c)
		cancel()
		err = errors.Join(<-ended, <-ended)
		if err := errors.Join(err, log.Close(), <-ended); err != nil {
			t.Errorf("close the log and wait for the end: %v", err)
		}
	})
}

func (c *counting) at(resource string) kinds.Target {
	of, _ := c.live.Load().Storage(kinds.GroupResource{Resource: resource})
	return kinds.Target{Resource: of, Namespace: "default"}
}

func (c *counting) create(resource, body string) {
	c.t.Helper()
	if _, err := c.Create(c.t.Context(), c.at(resource), []byte(body), metav1.CreateOptions{}); err != nil {
		c.t.Fatalf("create %s: %v", body, err)
	}
}

func (c *counting) configMap(name string) { c.create("configmaps", `{"metadata":{"name":"`+name+`"}}`) }

func (c *counting) remove(name string) {
	c.t.Helper()
	target := c.at("configmaps")
	target.Name = name
	if _, err := c.Delete(c.t.Context(), target, metav1.DeleteOptions{}); err != nil {
		c.t.Fatalf("delete %s: %v", name, err)
	}
}

// uses checks the usage after a time.
func (c *counting) uses(after time.Duration, want string) {
	c.t.Helper()
	<-time.After(after)
	synctest.Wait()
	var q corev1.ResourceQuota
	if err := json.Unmarshal(c.Find(quotas.Quotas(), c.key).JSON(), &q); err != nil {
		c.t.Fatalf("decode the quota: %v", err)
	}
	if got := quotas.Text(q.Status.Used); got != want {
		c.t.Errorf("after %v the usage is %q, want %q", after, got, want)
	}
}

// write writes the usage, as a plugin does that charges: this server's if it is noted.
func (c *counting) write(n int64, noted bool) {
	c.t.Helper()
	var from *wire.Object
	o, err := c.ChangeStatus(c.t.Context(), quotas.Quotas(), c.key, "test",
		func(u *unstructured.Unstructured, now *wire.Object) error {
			from = now
			return unstructured.SetNestedField(u.Object, strconv.FormatInt(n, 10), "status", "used", "configmaps")
		})
	if err != nil {
		c.t.Fatalf("write the usage: %v", err)
	}
	if noted {
		c.ledger.Wrote(c.key, from.ResourceVersion(), o.ResourceVersion())
	}
}

func one() corev1.ResourceList {
	k, _ := quotas.KindOf(kinds.GroupResource{Resource: "configmaps"}, nil)
	i, _ := k.Item(nil) // only the number counts
	return quotas.Only(i.Usage(), corev1.ResourceList{corev1.ResourceConfigMaps: {}})
}

func TestAllIsCountedThatIsThere(t *testing.T) {
	count(t, false, func(c *counting) {
		c.uses(time.Second, "configmaps=0")
		c.configMap("a")
		c.configMap("b")
		c.uses(2*time.Second, "configmaps=2") // nobody has charged them
		c.remove("a")
		c.uses(time.Second, "configmaps=1")
		c.write(7, false) // who writes what is wrong
		c.uses(6*time.Minute, "configmaps=1")
	})
}

func TestACountKeepsWhatIsChargedForObjectsThatAreNotStoredYet(t *testing.T) {
	count(t, false, func(c *counting) {
		c.configMap("a")
		c.configMap("b")
		c.uses(2*time.Second, "configmaps=2")
		c.ledger.Charge(c.key, one())
		c.write(3, true)
		c.remove("a")
		c.uses(time.Second, "configmaps=2")
		c.configMap("charged")
		c.ledger.Release(c.key, one())
		c.uses(time.Minute, "configmaps=2")
		// What may be stored later counts for a minute.
		c.ledger.Charge(c.key, one())
		c.write(3, true)
		c.ledger.Doubt(c.key, one())
		c.remove("b")
		c.uses(30*time.Second, "configmaps=2")
		c.uses(time.Minute, "configmaps=1")
	})
}

func TestInASharedStoreOnlyWhatIsGoneIsGivenBackAtOnce(t *testing.T) {
	count(t, true, func(c *counting) {
		for _, name := range []string{"a", "b", "c"} {
			c.configMap(name)
		}
		c.uses(2*time.Minute, "configmaps=3")
		c.write(5, false) // another server has charged two that are not stored yet
		c.remove("a")
		c.uses(10*time.Second, "configmaps=4")
		c.remove("b")
		c.uses(10*time.Second, "configmaps=3")
		c.uses(2*time.Minute, "configmaps=1") // they never were
	})
}
