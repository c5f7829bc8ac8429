package relay

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/kinds"
)

// keptState is what Config.Kept has.
type keptState struct {
	Resources []client.Resource `json:"resources"`
	// Contacts are when upstream last answered about a resource that was mirrored, by its name.
	Contacts map[string]time.Time `json:"contacts,omitempty"`
}

// Restore makes the resources that were kept in Config.Kept known, until upstream says what it serves. It
// is called before Run. Errors: kept.ErrUnusable.
func (r *Relay) Restore() error {
	body, err := r.cfg.Kept.Load()
	if err != nil || body == nil {
		return err
	}
	was, err := decodeState(body)
	if err != nil {
		return r.cfg.Kept.Unusable(err)
	}
	var all []*kinds.Resource
	for _, of := range was.Resources {
		if resource := r.mirrored(r.live.Load(), of); resource != nil {
			all = append(all, resource)
		}
	}
	r.live.Store(kinds.NewCatalog(all...))
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, at := range was.Contacts {
		if at.Before(time.Now()) { // otherwise the clock went back
			r.contacts[name] = at
		}
	}
	return nil
}

// decodeState reads what keep has written.
func decodeState(body []byte) (keptState, error) {
	var was keptState
	if err := json.Unmarshal(body, &was); err != nil {
		return was, fmt.Errorf("it is damaged: %w", err)
	}
	known := map[kinds.GroupVersionResource]bool{}
	for _, of := range was.Resources {
		if of.Resource == "" || of.Version == "" || of.Kind == "" || known[of.GroupVersionResource] {
			return was, fmt.Errorf("it is damaged: a resource is %+v", of.GroupVersionResource)
		}
		known[of.GroupVersionResource] = true
	}
	return was, nil
}

// keep writes what is known of upstream's resources.
func (r *Relay) keep() {
	if !r.cfg.Kept.Keeps() {
		return
	}
	is := keptState{Contacts: map[string]time.Time{}}
	for _, of := range r.live.Load().Resources() {
		is.Resources = append(is.Resources, client.Resource{
			GroupVersionResource: of.GVR(), Kind: of.Kind, Singular: of.Singular, Namespaced: of.Namespaced, Verbs: of.Verbs,
		})
		if at := r.contact(of); !at.IsZero() {
			is.Contacts[name(of)] = at
		}
	}
	body, err := json.Marshal(is)
	if err == nil {
		err = r.cfg.Kept.Save(body)
	}
	if err != nil {
		r.logger.Warn("upstream's resources are not kept for the next start", slog.Any("error", err))
	}
}

// contact is when upstream last answered about a resource, here or before the relay was started again;
// zero: that is not known.
func (r *Relay) contact(resource *kinds.Resource) time.Time {
	r.mu.Lock()
	c, before := r.collections[resource.GVR()], r.contacts[name(resource)]
	r.mu.Unlock()
	if c != nil {
		if reads := c.reads.Load(); reads != nil {
			if at := reads.Status().LastContact; !at.IsZero() {
				return at
			}
		}
	}
	return before
}
