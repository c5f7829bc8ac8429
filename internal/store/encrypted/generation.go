package encrypted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/gapless-io/gapless/internal/store"
)

// prefix is how every encrypted value begins (apiserver value/encrypt/identity).
const prefix = "k8s:enc:"

// Encryption returns the beginning of an encrypted value up to the name of its key:
// "k8s:enc:aesgcm:v1:key1:"; "" if the value is not encrypted. It makes no promise about
// what follows: that may be damaged.
func Encryption(v []byte) string {
	if !bytes.HasPrefix(v, []byte(prefix)) {
		return ""
	}
	const parts, most = 5, 300 // k8s, enc, the provider, its version, the key or the service
	end := 0
	for range parts {
		i := bytes.IndexByte(v[end:min(len(v), most)], ':')
		if i < 0 {
			break
		}
		end += i + 1
	}
	return strings.ToValidUTF8(string(v[:end]), "?")
}

// errNoKeys is the cause for an encrypted value of a resource that is not configured.
var errNoKeys = errors.New("the resource has no encryption configuration (--encryption-provider-config)")

// generation is one configuration with its keys.
type generation struct {
	transformers encryptionconfig.StaticTransformers
	resources    map[string]bool         // "secrets", "deployments.apps"
	groups       map[string]bool         // "*.apps", and "*." as ""
	all          bool                    // "*.*"
	byResource   sync.Map                // *transformer by resource
	data         func(key string) string // authenticated
	checks       []healthz.HealthChecker
	hash         string
	number       uint64             // counts those of the process, from 1
	grace        time.Duration      // how long connections are used after the next generation
	ends         context.Context    //nolint:containedctx // it is their lifetime
	stop         context.CancelFunc // ends them
	outages      outages

	// previous reads what was written with its keys in the moment of the switch. It has none
	// itself: Reload has made sure that nothing else needs it.
	previous atomic.Pointer[generation]
}

// load loads the configuration file.
func (k *Keys) load() (*generation, error) {
	if k.cfg.Check != nil {
		if err := k.cfg.Check(k.cfg.File); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(k.ends)
	// Reload is true for one health check of all services under upstream's name for it. It also
	// refuses KMS v1, which upstream's 1.37 only has behind a feature gate.
	c, err := encryptionconfig.LoadEncryptionConfig(ctx, k.cfg.File, true, k.cfg.ServerID)
	if err != nil {
		stop()
		return nil, fmt.Errorf("load the encryption configuration %s: %w", k.cfg.File, err)
	}
	g := &generation{
		transformers: c.Transformers, resources: map[string]bool{}, groups: map[string]bool{},
		data: k.data, checks: c.HealthChecks, hash: c.EncryptionFileContentHash, grace: c.KMSCloseGracePeriod,
		ends: ctx, stop: stop,
	}
	for gr := range c.Transformers {
		switch {
		case gr.Resource != "*":
			g.resources[gr.String()] = true
		case gr.Group == "*":
			g.all = true
		default:
			g.groups[gr.Group] = true
		}
	}
	return g, nil
}

// configured reports whether the generation encrypts, or may decrypt, a resource.
func (g *generation) configured(resource string) bool {
	if g.all || g.resources[resource] {
		return true
	}
	_, group, _ := strings.Cut(resource, ".")
	return len(g.groups) > 0 && g.groups[group]
}

// transformer is upstream's, for one resource.
type transformer struct {
	value.Transformer
	data func(key string) string // authenticated
	// request names the resource in upstream's metrics and logs.
	request *request.RequestInfo
}

// transformer returns the transformer of a key's values; nil if its resource is not configured.
func (g *generation) transformer(key string) *transformer {
	resource := store.ResourceOf(key)
	if !g.configured(resource) {
		return nil
	}
	if t, ok := g.byResource.Load(resource); ok {
		return t.(*transformer) //nolint:forcetypeassert // nothing else is stored
	}
	resource = strings.Clone(resource)
	gr := schema.ParseGroupResource(resource)
	t := &transformer{
		g.transformers.TransformerForResource(gr), g.data, &request.RequestInfo{APIGroup: gr.Group, Resource: gr.Resource},
	}
	g.byResource.Store(resource, t)
	return t
}

// plain reports whether a value is what is stored: nil, or that of a resource that is not
// configured. It allocates nothing.
func (g *generation) plain(key string, v []byte) bool {
	return v == nil || !bytes.HasPrefix(v, []byte(prefix)) && !g.configured(store.ResourceOf(key))
}

// decrypt decrypts the value of a key, with the generation before if need be.
func (g *generation) decrypt(ctx context.Context, key string, v []byte) (out []byte, stale bool, err error) {
	out, stale, err = g.own(ctx, key, v)
	previous := g.previous.Load()
	if err == nil || previous == nil || ctx.Err() != nil {
		return out, stale, err
	}
	if before, _, again := previous.own(ctx, key, v); again == nil {
		return before, true, nil
	}
	return nil, false, err
}

// own decrypts with this generation only. Its error is awayError if a key management service
// does not answer.
func (g *generation) own(ctx context.Context, key string, v []byte) (out []byte, stale bool, err error) {
	t := g.transformer(key)
	switch {
	case t == nil && bytes.HasPrefix(v, []byte(prefix)):
		return nil, false, errNoKeys
	case t == nil:
		return v, false, nil
	case bytes.HasPrefix(v, []byte(prefix+"kms:")):
		return g.managed(ctx, t, key, v)
	}
	return t.decrypt(ctx, key, v)
}

// encrypt encrypts the value of a key.
func (t *transformer) encrypt(ctx context.Context, key string, v []byte) ([]byte, error) {
	return t.TransformToStorage(request.WithRequestInfo(ctx, t.request), v, value.DefaultContext(t.data(key)))
}

// decrypt decrypts the value of a key. It is not nil.
func (t *transformer) decrypt(ctx context.Context, key string, v []byte) (out []byte, stale bool, err error) {
	// aescbc panics on the value of 16 bytes (apiserver v0.37.2, TransformFromStorage in aes.go).
	defer func() {
		if r := recover(); r != nil {
			out, stale, err = nil, false, fmt.Errorf("the value is damaged: %v", r)
		}
	}()
	if out, stale, err = t.TransformFromStorage(request.WithRequestInfo(ctx, t.request), v,
		value.DefaultContext(t.data(key))); out == nil && err == nil {
		out = []byte{} // the value is there, and is empty
	}
	return out, stale, err
}

// healthy asks the key management services.
func (g *generation) healthy(r *http.Request) error {
	for _, check := range g.checks {
		if err := check.Check(r); err != nil {
			return err
		}
	}
	return nil
}
