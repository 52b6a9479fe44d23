// The whole DSL: declare a model, its loss and its optimizer.
#pragma once

#include "frontend/dsl/attention.h"
#include "frontend/dsl/initializer.h"
#include "frontend/dsl/layers.h"
#include "frontend/dsl/loss.h"
#include "frontend/dsl/model.h"
#include "frontend/dsl/models/gpt2.h"
#include "frontend/dsl/models/llama.h"
#include "frontend/dsl/ops.h"
#include "frontend/dsl/optimizer.h"
#include "frontend/dsl/schedule.h"
