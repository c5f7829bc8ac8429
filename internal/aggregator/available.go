package aggregator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/hook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/apiregistration"
	"github.com/gapless-io/gapless/internal/wire"
)

// How availability is checked: kube-aggregator pkg/controllers/status/remote.
const (
	checkers    = 5 // APIServices at a time
	firstCheck  = 100 * time.Millisecond
	checkEvery  = 30 * time.Second
	checkWithin = 5 * time.Second
	// attempts is how many requests a server gets before it counts as away: a Service may have several addresses.
	attempts = 5
)

// checkAvailable brings the condition Available of an APIService up to date.
func (a *Aggregator) checkAvailable(ctx context.Context, name string) (again time.Duration, err error) {
	of := a.of(name)
	if of == nil || of.decoded == nil {
		return 0, nil
	}
	c := apiregistration.LocalCondition()
	var failed error
	if of.backend != nil {
		again = checkEvery
		c, failed = a.conditionOf(ctx, of.backend)
		if of.backend.available && c.Status != apiregistrationv1.ConditionTrue && ctx.Err() == nil {
			a.count(name, c.Reason)
		}
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := a.writeCondition(ctx, of, c); err != nil {
		return 0, err
	}
	return again, failed
}

// conditionOf returns the condition of an APIService, and an error if its server did not answer.
func (a *Aggregator) conditionOf(ctx context.Context, b *Backend) (apiregistrationv1.APIServiceCondition, error) {
	c := apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, LastTransitionTime: metav1.Now(),
	}
	var known bool
	c.Reason, c.Message, known = a.unaddressed(b)
	if !known {
		c.Status = apiregistrationv1.ConditionUnknown
	}
	if c.Reason != "" {
		return c, nil
	}
	if err := b.answers(ctx); err != nil {
		c.Reason, c.Message = "FailedDiscoveryCheck", err.Error()
		return c, err
	}
	c.Status, c.Reason, c.Message = apiregistrationv1.ConditionTrue, "Passed", "all checks passed"
	return c, nil
}

// unaddressed returns why the Service of an APIService leads nowhere; "": it leads somewhere. It is not known if an
// object cannot be read.
func (a *Aggregator) unaddressed(b *Backend) (reason, message string, known bool) {
	s := b.reference()
	unknown := func(reason string, err error) (string, string, bool) {
		return reason, fmt.Sprintf("service/%s in %q cannot be checked due to: %v", s.Name, s.Namespace, err), false
	}
	if err := a.cfg.Cluster.UnknownOf(coreServices(), s.Namespace, s.Name); err != nil { // before the look
		return unknown("ServiceAccessError", err)
	}
	o := a.cfg.Cluster.Service(s.Namespace, s.Name)
	if o == nil {
		return "ServiceNotFound", fmt.Sprintf("service/%s in %q is not present", s.Name, s.Namespace), true
	}
	var service corev1.Service
	if err := json.Unmarshal(o.JSON(), &service); err != nil {
		return unknown("ServiceAccessError", err)
	}
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		return "", "", true
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == s.Port })
	if i < 0 {
		return "ServicePortError", fmt.Sprintf("service/%s in %q is not listening on port %d", s.Name, s.Namespace, s.Port), true
	}
	if err := a.cfg.Cluster.UnknownOf(endpointSlices(), s.Namespace, ""); err != nil { // before the look
		return unknown("EndpointsAccessError", err)
	}
	points := a.cfg.Cluster.Endpoints(s.Namespace, s.Name)
	port := service.Spec.Ports[i].Name
	switch {
	case len(points) == 0:
		return "EndpointsNotFound", fmt.Sprintf("cannot find endpointslices for service/%s in %q", s.Name, s.Namespace), true
	case !slices.ContainsFunc(points, func(o *wire.Object) bool { return hasEndpoint(o, port) }):
		return "MissingEndpoints", fmt.Sprintf("endpointslices for service/%s in %q have no addresses with port name %q",
			s.Name, s.Namespace, port), true
	}
	return "", "", true
}

// hasEndpoint reports whether an EndpointSlice has an endpoint that is ready, and a port of a name.
func hasEndpoint(o *wire.Object, port string) bool {
	var slice discoveryv1.EndpointSlice
	if json.Unmarshal(o.JSON(), &slice) != nil {
		return false
	}
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Conditions.Ready == nil || *e.Conditions.Ready
	}) && slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name == port && p.Port != nil
	})
}

// answers returns an error if the server does not answer to any of some requests for its version.
func (b *Backend) answers(ctx context.Context) error {
	if b.broken != nil {
		return b.broken
	}
	last := b.answersOnce(ctx)
	if last == nil {
		return nil
	}
	b.at.CloseIdle() // the next ones go to other addresses
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	results := make(chan error, attempts-1)
	for range attempts - 1 {
		wg.Go(func() { results <- b.answersOnce(ctx) }) // it is answers', and ends with ctx
	}
	for range attempts - 1 {
		if last = <-results; last == nil {
			return nil
		}
	}
	return last
}

func (b *Backend) answersOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	s := b.reference()
	address, err := hook.Resolve(b.cfg.Cluster, &s)
	if err != nil {
		return err
	}
	path := "/apis/" + b.Version().String()
	shown := "https://" + address + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.at.URL.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", shown, err)
	}
	u := aggregatorUser()
	transport.SetAuthProxyHeaders(req, u.GetName(), "", u.GetGroups(), nil)
	resp, err := b.at.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("failing or missing response from %s: Get %q: %w", shown, shown, causeOf(err))
	}
	_ = resp.Body.Close() // it is not wanted
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("failing or missing response from %s: bad status from %s: %d", shown, shown, resp.StatusCode)
	}
	return nil
}

// writeCondition writes the condition to the status of an APIService, if it says something new.
func (a *Aggregator) writeCondition(ctx context.Context, of *service, c apiregistrationv1.APIServiceCondition) error {
	o := of.decoded.DeepCopy()
	i := slices.IndexFunc(o.Status.Conditions, func(has apiregistrationv1.APIServiceCondition) bool { return has.Type == c.Type })
	switch {
	case i < 0:
		o.Status.Conditions = append(o.Status.Conditions, c)
	default:
		has := &o.Status.Conditions[i]
		if has.Status == c.Status {
			c.LastTransitionTime = has.LastTransitionTime
		}
		*has = c
	}
	if equality.Semantic.DeepEqual(o.Status, of.decoded.Status) {
		return nil
	}
	a.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "the availability of an APIService changes", slog.String("name", o.Name),
		slog.String("status", string(c.Status)), slog.String("reason", c.Reason), slog.String("message", c.Message))
	return a.update(ctx, o, "status")
}

// update writes an APIService, or its status. What was changed or deleted meanwhile is no error: it is due again then.
func (a *Aggregator) update(ctx context.Context, o *apiregistrationv1.APIService, subresource string) error {
	o.TypeMeta = metav1.TypeMeta{APIVersion: apiregistrationv1.SchemeGroupVersion.String(), Kind: "APIService"}
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode APIService %s: %w", o.Name, err)
	}
	t := a.target(o.Name)
	t.Subresource = subresource
	_, err = a.cfg.Cluster.Update(ctx, t, body, metav1.UpdateOptions{FieldManager: manager})
	if hasReason(err, metav1.StatusReasonConflict) || hasReason(err, metav1.StatusReasonNotFound) {
		return nil
	}
	return err
}

// manager is who manages the fields that are written here: upstream writes them as itself, and a kube-apiserver on the
// same etcd writes the same objects.
const manager = "kube-apiserver"

func (a *Aggregator) target(name string) kinds.Target {
	resource, _ := a.cfg.Live.Load().Storage(apiServices())
	return kinds.Target{Resource: resource, Name: name}
}
