// expect: tenon: as_view needs a row-major matrix in memory; use tenon::EigenMatrix or Eigen::RowVector
#include <tenon/eigen.h>

#ifdef TENON_MISUSE
using Mine = Eigen::MatrixXf;  // column-major
#else
using Mine = tenon::EigenMatrix<float>;
#endif

int use(Mine& matrix) { return tenon::as_view(matrix).rows; }
