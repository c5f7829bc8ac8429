package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
)

// keepEvery is how often answers are kept on the disk: what a relay that is killed has learned since
// then, it must ask again.
const keepEvery = 30 * time.Second

// keptAccess is what is on the disk. Tokens are not: only hashes of them with the salt.
type keptAccess struct {
	Mode      Mode                      `json:"mode"`
	Salt      []byte                    `json:"salt"`
	Tokens    []keptAnswer[keptUser]    `json:"tokens,omitempty"`
	Accepted  []keptAnswer[struct{}]    `json:"accepted,omitempty"`
	Decisions []keptAnswer[keptVerdict] `json:"decisions,omitempty"`
}

type keptAnswer[V any] struct {
	Key   []byte    `json:"key"`
	Asked time.Time `json:"asked"`
	End   time.Time `json:"end,omitzero"`
	Value V         `json:"value"`
}

type keptUser struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

type keptVerdict struct {
	Allowed bool           `json:"allowed,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Refusal *metav1.Status `json:"refusal,omitempty"`
}

func newSalt() []byte {
	salt := make([]byte, sha256.Size)
	_, _ = rand.Read(salt) // it never fails
	return salt
}

// keyOf returns the key for all that a question depends on.
func (a *Access) keyOf(all []byte) key {
	hash := hmac.New(sha256.New, a.salt)
	_, _ = hash.Write(all) // it never fails
	return key(hash.Sum(nil))
}

// Restore makes the answers that were kept in Config.Kept usable while upstream cannot be reached, for
// Config.Stale after upstream gave them, as in the process that kept them; before that upstream is asked.
// It is called before the first request. Errors: kept.ErrUnusable.
func (a *Access) Restore() error {
	body, err := a.cfg.Kept.Load()
	if err != nil || body == nil {
		return err
	}
	var was keptAccess
	if err := decodeKept(body, &was); err != nil {
		return a.cfg.Kept.Unusable(err)
	}
	if was.Mode != a.cfg.Mode {
		return a.cfg.Kept.Unusable(fmt.Errorf("it is of the mode %q, and this relay runs in %q", was.Mode, a.cfg.Mode))
	}
	a.salt = was.Salt
	now := time.Now()
	restore(a.decisions, was.Decisions, now, keptVerdict.verdict)
	if r, is := a.mode.(*reviews); is {
		restore(r.tokens, was.Tokens, now, keptUser.info)
	}
	if p, is := a.mode.(*passthrough); is {
		restore(p.accepted, was.Accepted, now, func(v struct{}) struct{} { return v })
	}
	return nil
}

// decodeKept reads what Keep has written.
func decodeKept(body []byte, into *keptAccess) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	if len(into.Salt) != sha256.Size {
		return errors.New("it is damaged: the salt has another length")
	}
	return nil
}

// keep writes the answers to Config.Kept.
func (a *Access) keep() {
	if !a.cfg.Kept.Keeps() || a.cfg.Stale == 0 {
		return
	}
	now := time.Now()
	is := keptAccess{Mode: a.cfg.Mode, Salt: a.salt, Decisions: keep(a.decisions, now, keptVerdictOf)}
	if r, of := a.mode.(*reviews); of {
		is.Tokens = keep(r.tokens, now, keptUserOf)
	}
	if p, of := a.mode.(*passthrough); of {
		is.Accepted = keep(p.accepted, now, func(v struct{}) struct{} { return v })
	}
	body, err := json.Marshal(is)
	if err == nil {
		err = a.cfg.Kept.Save(body)
	}
	if err != nil {
		a.logger.Warn("the answers about callers are not kept for the next start", slog.Any("error", err))
	}
}

// keep returns the answers of a memo that can be used, the one that was used last first.
func keep[V, K any](m *memo[V], now time.Time, as func(V) K) []keptAnswer[K] {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]keptAnswer[K], 0, m.order.Len())
	for e := m.order.Front(); e != nil; e = e.Next() {
		v, _ := e.Value.(*known[V]) // nothing else is there
		if now.Before(v.last(m.stale)) {
			all = append(all, keptAnswer[K]{Key: v.key[:], Asked: v.asked, End: v.end, Value: as(v.value)})
		}
	}
	return all
}

// restore adds answers to a memo: those that can be used, and are not of the future, which a clock that
// went back would make usable for longer.
func restore[V, K any](m *memo[V], all []keptAnswer[K], now time.Time, as func(K) V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, was := range all {
		v := &known[V]{answer: answer[V]{value: as(was.Value), end: was.End}, asked: was.Asked}
		if len(was.Key) != sha256.Size || was.Asked.After(now) || !now.Before(v.last(m.stale)) || m.order.Len() >= m.most {
			continue
		}
		v.key = key(was.Key)
		if m.found[v.key] == nil {
			m.found[v.key] = m.order.PushBack(v)
		}
	}
}

func keptUserOf(u user.Info) keptUser {
	return keptUser{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}

func (u keptUser) info() user.Info {
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

func keptVerdictOf(v verdict) keptVerdict {
	is := keptVerdict{Allowed: v.allowed, Reason: v.reason}
	if v.refusal != nil {
		status := wire.StatusOf(v.refusal)
		is.Refusal = &status
	}
	return is
}

func (v keptVerdict) verdict() verdict {
	is := verdict{allowed: v.Allowed, reason: v.Reason}
	if v.Refusal != nil {
		is.allowed, is.refusal = false, &wire.StatusError{ErrStatus: *v.Refusal}
	}
	return is
}
