package addresses_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/store"
)

const (
	plain    = "{ports: [{port: 80}]}"
	withPort = "{type: NodePort, ports: [{port: 80}]}"
)

// TestConcurrentServicesShareNothing, in a range that is hardly larger than they need.
func TestConcurrentServicesShareNothing(t *testing.T) {
	c := open(t, openLog(t), settings{ranges: "10.0.0.0/25,fd00::/112", ports: "30000-30066"})
	var wg sync.WaitGroup
	made := make([]*corev1.Service, 64)
	for i := range made {
		wg.Go(func() {
			var err error
			made[i], err = c.try(fmt.Sprintf("s%d", i), "{type: NodePort, ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}")
			if err != nil {
				t.Errorf("create a Service: %v", err)
			}
		})
	}
	wg.Wait()
	seen := map[string]string{}
	for _, s := range made {
		if s == nil {
			continue
		}
		if len(s.Spec.ClusterIPs) != 2 {
			t.Errorf("%s has %v", s.Name, s.Spec.ClusterIPs)
		}
		for _, one := range append(s.Spec.ClusterIPs, fmt.Sprint(s.Spec.Ports[0].NodePort)) {
			if other := seen[one]; other != "" {
				t.Errorf("%s and %s have %s", s.Name, other, one)
			}
			seen[one] = s.Name
		}
	}
	if got := c.taken(); len(got) != 128 {
		t.Errorf("there are %d IPAddresses, want 128", len(got))
	}
}

// TestWhatAWriteTakesIsGivenBackIfItFails, and what a Service no longer has.
func TestWhatAWriteTakesIsGivenBackIfItFails(t *testing.T) {
	c := open(t, openLog(t), settings{})
	c.create("there", "{clusterIP: 10.0.0.2, ports: [{port: 80}]}")
	const static = "{type: LoadBalancer, externalTrafficPolicy: Local, clusterIP: 10.0.0.3, healthCheckNodePort: 30002, " +
		"ports: [{port: PORT, nodePort: 30001}]}"
	for name, text := range map[string]string{
		"there": strings.ReplaceAll(static, "PORT", "80"), // it exists
		"wrong": strings.ReplaceAll(static, "PORT", "80000"),
		"second": "{type: NodePort, clusterIP: 10.0.0.3, " +
			"ports: [{name: a, port: 80, nodePort: 30001}, {name: b, port: 81, nodePort: 1}]}",
	} {
		if _, err := c.try(name, text); err == nil {
			t.Errorf("%s is created", name)
		}
	}
	if diff := cmp.Diff([]string{"10.0.0.2 there"}, c.taken()); diff != "" {
		t.Errorf("IPAddresses -want +got:\n%s", diff)
	}
	c.create("a", strings.ReplaceAll(static, "PORT", "80"))
	if _, err := c.patch("a", "{spec: {type: ExternalName, externalName: a.example}}"); err != nil {
		t.Fatalf("give everything back: %v", err)
	}
	c.create("b", strings.ReplaceAll(static, "PORT", "80"))
	c.remove(addresses.ServicesResource(), "b")
	c.create("c", strings.ReplaceAll(static, "PORT", "80"))
	if diff := cmp.Diff([]string{"10.0.0.2 there", "10.0.0.3 c"}, c.taken()); diff != "" {
		t.Errorf("IPAddresses -want +got:\n%s", diff)
	}
}

// TestFullRangesSaySo: the texts are upstream's.
func TestFullRangesSaySo(t *testing.T) {
	c := open(t, openLog(t), settings{ranges: "10.0.0.0/29", ports: "30000-30002"})
	c.create("kubernetes", "{clusterIP: 10.0.0.1, ports: [{port: 80}]}")
	for i := range 5 {
		c.create(fmt.Sprintf("s%d", i), plain)
	}
	_, err := c.try("more", plain)
	if want := `Internal error occurred: failed to allocate a serviceIP for Service "more": range is full`; err == nil ||
		err.Error() != want {
		t.Errorf("one more: %v, want %s", err, want)
	}
	c.remove(addresses.ServicesResource(), "s3")
	for i := range 3 {
		if _, err := c.patch(fmt.Sprintf("s%d", i), "{spec: {type: NodePort}}"); err != nil {
			t.Errorf("get a node port: %v", err)
		}
	}
	_, err = c.try("more", withPort)
	if want := `Internal error occurred: failed to allocate a nodePort: range is full`; err == nil || err.Error() != want {
		t.Errorf("one more node port: %v, want %s", err, want)
	}
	c.create("more", plain) // the address was given back
}

// TestServicesFromBeforeGoOn, which were stored without addresses, or with any.
func TestServicesFromBeforeGoOn(t *testing.T) {
	log := openLog(t)
	before := open(t, log, settings{none: true})
	for name, text := range map[string]string{
		"none": plain, "ports": withPort, "inside": "{clusterIP: 10.0.0.5, ports: [{port: 80}]}",
		"outside": "{clusterIP: 10.96.0.1, ports: [{port: 80}]}", "six": "{clusterIP: 'fd00::1', ports: [{port: 80}]}",
		"twice-a": "{clusterIP: 10.0.0.6, ports: [{port: 80}]}", "twice-b": "{clusterIP: 10.0.0.6, ports: [{port: 80}]}",
		"port":  "{type: NodePort, clusterIP: 10.0.0.7, ports: [{port: 80, nodePort: 30005}]}",
		"local": "{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}",
		"bare":  "{clusterIP: None, ipFamilies: [IPv6], selector: {a: b}}",
		"name":  "{type: ExternalName, externalName: a.example}",
	} {
		before.create(name, text)
	}
	before.stop()
	c := open(t, log, settings{})
	if err := c.allocator.Repair(t.Context(), 0); err != nil {
		t.Fatalf("repair: %v", err)
	}
	got := c.taken()
	if len(got) != 3 || got[0] != "10.0.0.5 inside" || !strings.HasPrefix(got[1], "10.0.0.6 twice-") ||
		got[2] != "10.0.0.7 port" {
		t.Errorf("after the repair there are %v", got)
	}
	for _, taken := range []string{
		"{clusterIP: 10.0.0.5, ports: [{port: 80}]}", "{type: NodePort, ports: [{port: 80, nodePort: 30005}]}",
	} {
		if _, err := c.try("new", taken); err == nil || !strings.Contains(err.Error(), "already allocated") {
			t.Errorf("take what one has: %v", err)
		}
	}
	for _, name := range []string{
		"none", "ports", "inside", "outside", "six", "twice-a", "twice-b", "port", "local", "bare", "name",
	} {
		if _, err := c.patch(name, "{metadata: {labels: {a: b}}}"); err != nil {
			t.Errorf("change %s: %v", name, err)
		}
	}
	get := func(name string) corev1.ServiceSpec {
		o, err := c.Get(t.Context(), c.at(addresses.ServicesResource(), name), "")
		if err != nil {
			t.Fatalf("get %s: %v", name, err)
		}
		return c.decode(o).Spec
	}
	if s := get("none"); s.ClusterIP == "" || len(s.ClusterIPs) != 1 || len(s.IPFamilies) != 1 {
		t.Errorf("a Service without an address has %+v after a change", s)
	}
	if s := get("local"); s.Ports[0].NodePort == 0 || s.HealthCheckNodePort == 0 || s.ClusterIP == "" {
		t.Errorf("a Service without ports has %+v after a change", s)
	}
	if s := get("outside"); s.ClusterIP != "10.96.0.1" || s.IPFamilies[0] != corev1.IPv4Protocol {
		t.Errorf("a Service with another address has %+v after a change", s)
	}
}

// TestServicesFromBeforeGoOnWithoutAFreeAddress: their changes do not fail.
func TestServicesFromBeforeGoOnWithoutAFreeAddress(t *testing.T) {
	log := openLog(t)
	before := open(t, log, settings{none: true})
	before.create("none", plain)
	before.stop()
	c := open(t, log, settings{ranges: "10.0.0.0/30"})
	c.create("other", plain)
	s, err := c.patch("none", "{metadata: {labels: {a: b}}}")
	if err != nil || s.Spec.ClusterIP != "" {
		t.Errorf("change a Service without an address: %v, %+v", err, s)
	}
}

// lossy is a store that does not say what has become of writes of Services.
type lossy struct {
	store.Store

	mode *string // "": all is well; "before" and "after": nothing, or all, is written
}

func (l lossy) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if !strings.HasPrefix(t.Key, "services/") || *l.mode == "" {
		return l.Store.Commit(ctx, t)
	}
	if *l.mode == "after" {
		if _, err := l.Store.Commit(ctx, t); err != nil {
			return store.Committed{}, err
		}
	}
	return store.Committed{}, store.ErrOutcomeUnknown
}

// TestNothingIsSharedAfterAWriteOfUnknownOutcome: what it took stays taken, until the repair finds that no Service has it.
func TestNothingIsSharedAfterAWriteOfUnknownOutcome(t *testing.T) {
	log, mode := openLog(t), ""
	c := open(t, lossy{log, &mode}, settings{})
	const text = "{type: NodePort, clusterIP: 10.0.0.%d, ports: [{port: 80, nodePort: 3000%d}]}"
	for m, n := range map[string]int{"before": 6, "after": 5} {
		mode = m
		if _, err := c.try(m, fmt.Sprintf(text, n, n)); err == nil {
			t.Errorf("%s: it is created", m)
		}
	}
	mode = ""
	if err := c.Fresh(t.Context(), addresses.ServicesResource()); err != nil {
		t.Fatalf("wait: %v", err)
	}
	for _, taken := range []string{
		"{clusterIP: 10.0.0.6, ports: [{port: 80}]}", "{clusterIP: 10.0.0.5, ports: [{port: 80}]}",
		"{type: NodePort, ports: [{port: 80, nodePort: 30005}]}", "{type: NodePort, ports: [{port: 80, nodePort: 30006}]}",
	} {
		if _, err := c.try("new", taken); err == nil || !strings.Contains(err.Error(), "already allocated") {
			t.Errorf("take what may be another's: %v", err)
		}
	}
	if err := c.allocator.Repair(t.Context(), time.Hour); err != nil {
		t.Errorf("repair: %v", err)
	}
	if diff := cmp.Diff([]string{"10.0.0.5 after", "10.0.0.6 before"}, c.taken()); diff != "" {
		t.Errorf("IPAddresses, while the write may be in progress: -want +got:\n%s", diff)
	}
	c.stop() // the server ends
	again := open(t, log, settings{})
	if err := again.allocator.Repair(t.Context(), 0); err != nil {
		t.Errorf("repair: %v", err)
	}
	if diff := cmp.Diff([]string{"10.0.0.5 after"}, again.taken()); diff != "" {
		t.Errorf("IPAddresses after a start: -want +got:\n%s", diff)
	}
	again.create("new", "{type: NodePort, clusterIP: 10.0.0.6, ports: [{port: 80, nodePort: 30006}]}")
}

// leaving is a store whose client leaves while an IPAddress is written; it does not say then what has become of it.
type leaving struct {
	store.Store

	leave context.CancelFunc
}

func (l leaving) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	done, err := l.Store.Commit(context.WithoutCancel(ctx), t)
	if strings.HasPrefix(t.Key, "ipaddresses") {
		l.leave()
	}
	if ctx.Err() != nil {
		return store.Committed{}, store.ErrOutcomeUnknown
	}
	return done, err
}

// TestWhatAWriteTakesIsGivenBackIfItsClientLeaves, meanwhile: no Service is written then.
func TestWhatAWriteTakesIsGivenBackIfItsClientLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	c := open(t, leaving{openLog(t), leave}, settings{})
	_, err := c.Create(ctx, c.at(addresses.ServicesResource(), ""),
		[]byte(`{"metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}}`),
		metav1.CreateOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the write of a client that has left: %v", err)
	}
	if got := c.taken(); len(got) != 0 {
		t.Errorf("it leaves %v", got)
	}
	c.create("b", "{type: NodePort, ports: [{port: 80, nodePort: 30001}]}")
}

// TestTheRepairMendsIPAddresses that somebody has deleted or changed.
func TestTheRepairMendsIPAddresses(t *testing.T) {
	c := open(t, openLog(t), settings{})
	c.create("a", "{clusterIP: 10.0.0.2, ports: [{port: 80}]}")
	c.create("b", "{clusterIP: 10.0.0.3, ports: [{port: 80}]}")
	for _, name := range []string{"10.0.0.2", "10.0.0.3"} {
		c.remove(addresses.AddressesResource(), name)
	}
	address := func(name, labels, parent string) {
		body := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{%s}},"spec":{"parentRef":{%s}}}`, name, labels, parent)
		c.make(addresses.AddressesResource(), body)
	}
	const managed = `"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io","ipaddress.kubernetes.io/ip-family":"IPv4"`
	address("10.0.0.3", managed, `"resource":"services","namespace":"default","name":"gone"`)
	address("10.0.0.4", managed, `"resource":"services","namespace":"default","name":"a"`)
	address("10.0.0.5", managed, `"group":"example.com","resource":"gateways","name":"a"`)
	address("10.0.0.6", "", `"group":"example.com","resource":"gateways","name":"a"`) // another controller's
	if err := c.allocator.Repair(t.Context(), 0); err != nil {
		t.Fatalf("repair: %v", err)
	}
	if diff := cmp.Diff([]string{"10.0.0.2 a", "10.0.0.3 b", "10.0.0.6 "}, c.taken()); diff != "" {
		t.Errorf("IPAddresses -want +got:\n%s", diff)
	}
	before := c.taken()
	if err := c.allocator.Repair(t.Context(), 0); err != nil || cmp.Diff(before, c.taken()) != "" {
		t.Errorf("a second repair: %v, %v", err, c.taken())
	}
}

// TestServiceCIDRsAreRanges: another one is used when the first is full, but not one that is not ready.
func TestServiceCIDRsAreRanges(t *testing.T) {
	c := open(t, openLog(t), settings{ranges: "10.0.0.0/30"})
	cidr := func(name, text string) {
		body := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"cidrs":[%q]}}`, name, text)
		c.make(addresses.RangesResource(), body)
	}
	cidr("kubernetes", "10.1.0.0/30")
	if s := c.create("a", plain); s.Spec.ClusterIP != "10.1.0.2" {
		t.Errorf("the address is %s, want one of the ServiceCIDR", s.Spec.ClusterIP)
	}
	if _, err := c.try("full", plain); err == nil {
		t.Error("there are more addresses")
	}
	cidr("more", "10.2.0.0/30")
	status := `{"metadata":{"name":"more"},"status":{"conditions":[{"type":"Ready","status":"STATUS","reason":"r",` +
		`"message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	set := func(to string) {
		at := c.at(addresses.RangesResource(), "more")
		at.Subresource = "status"
		o, err := c.Get(t.Context(), c.at(addresses.RangesResource(), "more"), "")
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		body := strings.Replace(strings.Replace(status, "STATUS", to, 1), `"name"`,
			`"resourceVersion":"`+o.ResourceVersion().String()+`","name"`, 1)
		if _, err := c.Update(t.Context(), at, []byte(body), metav1.UpdateOptions{}); err != nil {
			t.Fatalf("write a status: %v", err)
		}
	}
	set("False")
	if _, err := c.try("unready", plain); err == nil {
		t.Error("a range is used that is not ready")
	}
	set("True")
	if s := c.create("b", plain); !strings.HasPrefix(s.Spec.ClusterIP, "10.2.0.") {
		t.Errorf("the address is %s, want one of the second ServiceCIDR", s.Spec.ClusterIP)
	}
	if got := c.allocator.First().String(); got != "10.1.0.1" {
		t.Errorf("the Service kubernetes has %s", got)
	}
}

// TestNewServicesHaveTheFamiliesOfNamedRanges: a cluster that had two families has one after a start that names one (as
// with upstream, dualstack.TestDowngradeServicePreferFromDualStack), and both after a start that names none.
func TestNewServicesHaveTheFamiliesOfNamedRanges(t *testing.T) {
	const prefers = "{ipFamilyPolicy: PreferDualStack, ports: [{port: 1}]}"
	log := openLog(t)
	families := func(name, ranges string, want ...corev1.IPFamily) {
		t.Helper()
		c := open(t, log, settings{ranges: ranges})
		defer c.stop()
		if name == "first" {
			c.make(addresses.RangesResource(),
				`{"metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.0.0.0/24","2001:db8::/108"]}}`)
		}
		if got := c.create(name, prefers).Spec.IPFamilies; !slices.Equal(got, want) {
			t.Errorf("with the ranges %q it has the families %v, want %v", ranges, got, want)
		}
		o, err := c.Get(t.Context(), c.at(addresses.ServicesResource(), "first"), "")
		if err != nil || len(c.decode(o).Spec.ClusterIPs) != 2 {
			t.Errorf("with the ranges %q the first Service lost an address: %v", ranges, err)
		}
		if _, err := c.patch("first", "{metadata: {labels: {with: "+name+"}}}"); err != nil {
			t.Errorf("with the ranges %q: %v", ranges, err)
		}
	}
	families("first", "10.0.0.0/24,2001:db8::/108", corev1.IPv4Protocol, corev1.IPv6Protocol)
	families("one", "10.0.0.0/24", corev1.IPv4Protocol)
	families("other", "2001:db8::/108,10.0.0.0/24", corev1.IPv6Protocol, corev1.IPv4Protocol)
	families("unnamed", "", corev1.IPv4Protocol, corev1.IPv6Protocol)
}

// BenchmarkCreate is a creation among many Services.
func BenchmarkCreate(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		for _, none := range []bool{true, false} {
			b.Run(fmt.Sprintf("services=%d/allocated=%v", n, !none), func(b *testing.B) {
				c := open(b, openLog(b), settings{ranges: "10.0.0.0/16", none: none})
				for i := range n {
					c.create(fmt.Sprintf("s%d", i), plain)
				}
				i := n
				for b.Loop() {
					if i++; i > 60_000 {
						b.Fatal("too many")
					}
					c.create(fmt.Sprintf("s%d", i), plain)
				}
			})
		}
	}
}
