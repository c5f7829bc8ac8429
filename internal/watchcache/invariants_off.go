//go:build !invariants

package watchcache

import (
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// positions are what checkPosition looks at.
type positions struct{ start, before, now, state kube.ResourceVersion }

func checkState(*state) {}

func checkEntry(*Entry, *wire.Object, bool) {}

func checkWindow(window, kube.ResourceVersion) {}

func checkEvent(wire.WatchEvent, *Entry, *Selection, kube.ResourceVersion) {}

func checkPosition(positions) {}

func checkSkipped(window, *waiter, kube.ResourceVersion) {}
