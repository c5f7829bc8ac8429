package growth

import "math"

// fitted is how many of the largest sizes a slope is fitted to: small ones show what an operation costs at least.
const fitted = 4

// Slope returns the exponent of a curve: that of the power of n which is nearest to its values at the largest sizes, by
// least squares of the logarithms. 0 is a constant, 1 is in proportion; log n is about 0.1 from 4 000 to a million.
// It is NaN if fewer than two sizes have a value above 0.
func Slope(sizes []int, values []float64) float64 {
	var xs, ys []float64
	for i := len(values) - 1; i >= 0 && len(xs) < fitted; i-- {
		if values[i] > 0 { // what could not be measured is 0
			xs, ys = append(xs, math.Log(float64(sizes[i]))), append(ys, math.Log(values[i]))
		}
	}
	mx, my := mean(xs), mean(ys)
	var xy, xx float64
	for i := range xs {
		xy += (xs[i] - mx) * (ys[i] - my)
		xx += (xs[i] - mx) * (xs[i] - mx)
	}
	return xy / xx
}

func mean(all []float64) float64 {
	sum := 0.
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}
