// Package events has admission plugins for Events.
package events

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
)

// RateLimitName is the name of EventRateLimit.
const RateLimitName = "EventRateLimit"

// version is that of the configuration.
const version = "eventratelimit.admission.k8s.io/v1alpha1"

// rateLimits is upstream's Configuration.
type rateLimits struct {
	metav1.TypeMeta `json:",inline"`

	Limits []limit `json:"limits"`
}

// limit is a limit of one type: QPS a second, and Burst at once, for each of what the type tells apart.
type limit struct {
	Type      string `json:"type"`
	QPS       int32  `json:"qps"`
	Burst     int32  `json:"burst"`
	CacheSize int32  `json:"cacheSize"`
}

// EventRateLimit is upstream's plugin of this name: it answers 429 to Events that come too fast, of all clients together,
// of one namespace, of one user, or of one source about one object. config is a Configuration of
// eventratelimit.admission.k8s.io/v1alpha1; nil limits nothing. Buckets of what was not seen for long are forgotten.
func EventRateLimit(config []byte) (plugins.Plugin, error) {
	p := plugins.Plugin{Name: RateLimitName}
	var c rateLimits
	if config == nil {
		return p, nil
	}
	err := plugins.Parse(config, version, "Configuration", &c)
	if err == nil {
		err = c.check().ToAggregate()
	}
	if err != nil {
		return p, fmt.Errorf("configuration of %s: %w", RateLimitName, err)
	}
	var all []*limiter
	for _, one := range c.Limits {
		all = append(all, newLimiter(one))
	}
	// Those of events.k8s.io are not limited, as upstream.
	p.Concerns = []plugins.Concern{{
		Resource: kinds.GroupResource{Resource: "events"}, Operations: []upstream.Operation{upstream.Create, upstream.Update},
	}}
	p.Validate = func(_ context.Context, w *plugins.Write) error {
		if w.IsDryRun() || w.GetKind().Kind != "Event" {
			return nil
		}
		var errs []error
		for _, l := range all {
			if key := l.key(w); !l.of(key).TryAccept() {
				errs = append(errs, fmt.Errorf("limit reached on type %v for key %v", l.Type, key))
			}
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return apierrors.NewTooManyRequestsError(err.Error())
		}
		return nil
	}
	return p, nil
}

// check returns what is wrong, with upstream's texts.
func (c *rateLimits) check() (errs field.ErrorList) {
	at := field.NewPath("limits")
	if len(c.Limits) == 0 {
		errs = append(errs, field.Invalid(at, c.Limits, "must not be empty"))
	}
	for i, l := range c.Limits {
		at := at.Index(i)
		if _, known := keys()[l.Type]; !known {
			errs = append(errs,
				field.NotSupported(at.Child("type"), l.Type, []string{"Namespace", "Server", "SourceAndObject", "User"}))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.CacheSize < 0 && l.Type != "Server" {
			errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}

// keys are what the types of limits tell apart.
func keys() map[string]func(w *plugins.Write) string {
	return map[string]func(w *plugins.Write) string{
		"Server":    func(*plugins.Write) string { return "" },
		"Namespace": func(w *plugins.Write) string { return w.GetNamespace() },
		"User": func(w *plugins.Write) string {
			if u := w.GetUserInfo(); u != nil {
				return u.GetName()
			}
			return ""
		},
		"SourceAndObject": func(w *plugins.Write) string {
			source, _ := w.Object.Object["source"].(map[string]any)
			object, _ := w.Object.Object["involvedObject"].(map[string]any)
			return plugins.Text(source, "component") + plugins.Text(source, "host") + plugins.Text(object, "kind") +
				plugins.Text(object, "namespace") + plugins.Text(object, "name") + plugins.Text(object, "uid") +
				plugins.Text(object, "apiVersion")
		},
	}
}

// limiter has the buckets of one limit.
type limiter struct {
	limit

	key func(w *plugins.Write) string

	mu      sync.Mutex // guards making buckets
	buckets *lru.Cache
}

func newLimiter(l limit) *limiter {
	const most = 4096 // upstream's default
	size := most
	if l.CacheSize > 0 && l.Type != "Server" {
		size = int(l.CacheSize)
	}
	return &limiter{limit: l, key: keys()[l.Type], buckets: lru.New(size)}
}

// of returns the bucket of a key.
func (l *limiter) of(key string) flowcontrol.RateLimiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, has := l.buckets.Get(key); has {
		bucket, _ := found.(flowcontrol.RateLimiter)
		return bucket
	}
	bucket := flowcontrol.NewTokenBucketRateLimiter(float32(l.QPS), int(l.Burst))
	l.buckets.Add(key, bucket)
	return bucket
}
