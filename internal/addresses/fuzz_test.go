package addresses

import (
	"encoding/json"
	"math/big"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func FuzzRangeAllocation(f *testing.F) {
	whole, err := registered{in: portRange{Base: 30000, Size: 2768}, bits: big.NewInt(1 << 40)}.encode()
	if err != nil {
		f.Fatalf("encode: %v", err)
	}
	text, err := json.Marshal(corev1.RangeAllocation{Range: "30000-32767", Data: []byte{1, 0, 7}})
	if err != nil {
		f.Fatalf("encode: %v", err)
	}
	f.Add(whole)
	f.Add(text)
	f.Add([]byte("k8s\x00\x0a\x00"))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := decodeRegistered(value)
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		back, err := decodeRegistered(again)
		if err != nil || back.in != r.in || back.bits.Cmp(r.bits) != 0 {
			t.Errorf("%v %v is %v %v then: %v", r.in, r.bits, back.in, back.bits, err)
		}
		r.in.free(r.has)
	})
}
