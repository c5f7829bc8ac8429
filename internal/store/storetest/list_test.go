package storetest_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

func TestTheListIsAStoreToWhichOthersWrite(t *testing.T) {
	list := func(s store.Store) *storetest.List { return s.(*storetest.List) } //nolint:forcetypeassert // Open makes no other
	storetest.RunForeign(t, storetest.Foreign{
		Open: func(*testing.T) store.Store { return storetest.NewList() },
		Together: func(_ *testing.T, s store.Store, txns ...store.Txn) int64 {
			return list(s).Together(txns...)
		},
		Miss: func(_ *testing.T, s store.Store, write func(func(...store.Txn) int64)) store.Hole {
			return list(s).Miss(func() { write(list(s).Together) })
		},
	})
}
