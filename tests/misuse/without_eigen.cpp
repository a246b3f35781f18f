// expect: tenon: tenon/eigen.h needs Eigen 3.4; install libeigen3-dev, and link Eigen3::Eigen
// flags: -Wfatal-errors
#ifdef TENON_MISUSE
#include <tenon/eigen.h>
#else
#include <tenon/core/views.h>
#endif

int use(const tenon::Shape& shape) { return shape.rows; }
